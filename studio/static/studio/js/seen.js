/**
 * Which state of each session this browser has seen, for the unread marks. Kept where it can be; lost without harm.
 */
const NAME = "studio.seen";
const KEPT = 500;

export function loadSeen() {
  try {
    return JSON.parse(localStorage.getItem(NAME)) ?? {};
  } catch (error) {
    console.info("Unread marks start anew:", error.message);
    return {};
  }
}

export function saveSeen(seen) {
  try {
    localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(Object.entries(seen).slice(-KEPT))));
  } catch (error) {
    console.info("Unread marks are not kept:", error.message);
  }
}
