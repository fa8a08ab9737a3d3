/**
 * The page's keys: one table, by which what was pressed becomes a command. Pure.
 *
 * `mod` is Ctrl, and ⌘ on a Mac. A row with `bare` is a character by itself: it counts only outside of text fields, and may
 * be switched off. Letters are found by their place too, so that they work in Cyrillic.
 */
const TABLE = [
  { command: "stop", key: "Escape" },
  { command: "write", key: "Escape", shift: true },
  { command: "help", key: "/", code: "Slash", mod: true },
  { command: "help", key: "?", bare: true, shift: null },
  { command: "search", key: "k", code: "KeyK", mod: true },
  { command: "new", key: "o", code: "KeyO", mod: true, shift: true },
  { command: "previous", key: "PageUp", alt: true },
  { command: "next", key: "PageDown", alt: true },
  { command: "end", key: "End", alt: true },
];
export const COMMANDS = [...new Set(TABLE.map(({ command }) => command))];
const LATIN = /^[a-z]$/i;

export const isMac = (platform) => /^(Mac|iP)/.test(platform);

/** While a word is composed, as in Japanese, no key is a command: Enter chooses the word. */
export const isComposing = ({ isComposing, keyCode }) => isComposing || keyCode === 229;

/**
 * @param {KeyboardEvent} event
 * @param {{typing: boolean, mac: boolean, bare: boolean}} how whether a text field has the focus, and bare keys count
 * @returns {string|null} one of `COMMANDS`
 */
export function commandOf(event, how) {
  if (isComposing(event)) return null;
  return TABLE.find((row) => isPressed(row, event) && isHeld(row, event, how.mac) && isMeant(row, how))?.command ?? null;
}

/** What Enter means in a field. @returns {"break"|"now"|"done"|null} */
export function enterOf(event, { mac }) {
  if (event.key !== "Enter" || isComposing(event)) return null;
  if (mac ? event.metaKey : event.ctrlKey) return "now";
  return event.shiftKey || event.altKey ? "break" : "done";
}

function isPressed({ key, code }, event) {
  if (event.key.toLowerCase() === key.toLowerCase()) return true;
  return event.code === code && code !== undefined && !LATIN.test(event.key);
}

function isHeld({ mod = false, shift = false, alt = false }, event, mac) {
  const [asMod, other] = mac ? [event.metaKey, event.ctrlKey] : [event.ctrlKey, event.metaKey];
  return asMod === mod && !other && event.altKey === alt && (shift === null || event.shiftKey === shift);
}

const isMeant = ({ bare: isBare = false }, { typing, bare }) => !isBare || (bare && !typing);
