/**
 * The keyboard in a list of rows: one of them is reached by Tab, the arrows go to the others, letters act on it.
 *
 * Letters count only while the focus is in the list, so they never take what is typed elsewhere.
 */
const PAGE_ROWS = 10;
const INNER = "a, button, input";

export class RowKeys {
  #body;
  #acts;
  #current = null; // the id of the row that Tab reaches

  /** @param {HTMLElement} body @param {{toggle: Function, chooseAll: Function, clear: Function, stop: Function}} acts */
  constructor(body, acts) {
    this.#body = body;
    this.#acts = acts;
    body.addEventListener("keydown", (event) => this.#pressed(event));
    body.addEventListener("focusin", ({ target }) => this.#become(target.closest("tr")));
  }

  focus() {
    this.#rowOf(this.#current)?.focus({ preventScroll: true });
  }

  /** Let `change` add, move and remove rows; the focus stays where it was, or goes to the row that took its place. */
  around(change) {
    const focused = document.activeElement;
    const held = this.#body.contains(focused);
    const index = [...this.#body.children].findIndex((row) => row.dataset.key === this.#current);
    change();
    const row = this.#rowOf(this.#current) ?? this.#body.children[Math.min(Math.max(index, 0), this.#body.children.length - 1)];
    this.#become(row ?? null);
    if (!held || document.activeElement === focused) return;
    (this.#body.contains(focused) ? focused : row)?.focus({ preventScroll: true });
  }

  #become(row) {
    this.#current = row?.dataset.key ?? null;
    for (const other of this.#body.children) reach(other, other === row ? 0 : -1);
  }

  #pressed(event) {
    const row = event.target.closest("tr");
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.#acts[ACTS[event.key]];
    const next = MOVES[event.key]?.([...this.#body.children], row);
    if (next) this.#move(row, next, event.shiftKey);
    else if (event.key === " " && event.target === row) this.#acts.toggle(row.dataset.key);
    else if (act) act(row.dataset.key);
    else return;
    event.preventDefault();
  }

  /** With Shift, what the focus comes to is chosen or given up with it. */
  #move(row, next, choosing) {
    if (choosing && next !== row) this.#acts.toggle(next.dataset.key);
    next.focus();
  }

  #rowOf(id) {
    return id === null ? null : this.#body.querySelector(`[data-key="${CSS.escape(id)}"]`);
  }
}

const at = (rows, row, by) => rows[Math.min(Math.max(rows.indexOf(row) + by, 0), rows.length - 1)];
const MOVES = {
  ArrowDown: (rows, row) => at(rows, row, 1),
  ArrowUp: (rows, row) => at(rows, row, -1),
  PageDown: (rows, row) => at(rows, row, PAGE_ROWS),
  PageUp: (rows, row) => at(rows, row, -PAGE_ROWS),
  Home: (rows) => rows[0],
  End: (rows) => rows.at(-1),
};
const ACTS = { x: "toggle", a: "chooseAll", Escape: "clear", s: "stop", Delete: "stop" };

function reach(row, tabIndex) {
  if (row.tabIndex === tabIndex && row.dataset.reached) return;
  row.dataset.reached = "yes";
  row.tabIndex = tabIndex;
  row.querySelectorAll(INNER).forEach((inner) => (inner.tabIndex = tabIndex));
}
