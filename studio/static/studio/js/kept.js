/**
 * What this browser remembers between loads: which sessions were seen, and what was written but not sent. Kept where it
 * can be; a browser that refuses loses the memory, not the page.
 */
const latest = new Map(); // name → JSON, so that nothing is written twice

/** @param {Storage} storage @param {string} name @returns {object} what was saved, or an empty object */
export function load(storage, name) {
  try {
    return JSON.parse(storage.getItem(`studio.${name}`)) ?? {};
  } catch (error) {
    console.info(`The ${name} are not remembered:`, error.message);
    return {};
  }
}

export function save(storage, name, value) {
  const json = JSON.stringify(value);
  if (latest.get(name) === json) return;
  latest.set(name, json);
  try {
    storage.setItem(`studio.${name}`, json);
  } catch (error) {
    console.info(`The ${name} are not kept:`, error.message);
  }
}
