/**
 * What this browser remembers between loads: which sessions were seen, which model was chosen, what was written but not
 * sent. Kept where it can be; a browser that refuses loses the memory, not the page.
 *
 * Promise: what belongs to one person is never shown to another. Each has names of their own, and what others left in the
 * same browser is forgotten when the next person's page begins.
 */
const OURS = "studio";

export class Memory {
  #storage;
  #prefix;
  #latest = new Map(); // name → JSON, so that nothing is written twice

  /** @param {() => Storage} open it may be refused @param {string} owner who is logged in, the same at each load */
  constructor(open, owner) {
    this.#prefix = `${OURS}/${owner}/`;
    this.#storage = this.#tried("open", open) ?? null;
    this.#tried("clear", () => this.#forgetOthers());
  }

  /** @returns {*} what was saved, or `otherwise` */
  load(name, otherwise) {
    const json = this.#tried("read", () => this.#storage?.getItem(this.#prefix + name));
    return (json && this.#tried("read", () => JSON.parse(json))) ?? otherwise;
  }

  save(name, value) {
    const json = JSON.stringify(value);
    if (this.#latest.get(name) === json) return;
    this.#latest.set(name, json);
    this.#tried("keep", () => this.#storage?.setItem(this.#prefix + name, json));
  }

  #forgetOthers() {
    const names = Array.from({ length: this.#storage?.length ?? 0 }, (_, index) => this.#storage.key(index));
    const foreign = names.filter((name) => name.startsWith(OURS) && !name.startsWith(this.#prefix));
    foreign.forEach((name) => this.#storage.removeItem(name));
  }

  #tried(what, act) {
    try {
      return act();
    } catch (error) {
      console.info(`This browser did not ${what} what the page remembers:`, error.message);
    }
  }
}
