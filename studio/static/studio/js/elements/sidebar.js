/**
 * `<studio-sidebar>`: the session list; on a narrow page it lies behind a button and covers the thread while it is open.
 */
import { StudioElement } from "#studio/elements/studio-element";

class StudioSidebar extends StudioElement {
  #buttons = [];

  listen() {
    this.#buttons = [...document.querySelectorAll("[aria-controls=sidebar]")];
    this.#buttons.forEach((button) => button.addEventListener("click", () => this.#toggle(!this.#isOpen)));
    document.addEventListener("keydown", (event) => this.#escape(event));
    document.addEventListener("click", ({ target }) => this.#clicked(target));
    document.querySelector("main").addEventListener("focusin", () => this.#isOpen && this.#toggle(false, false));
  }

  get #isOpen() {
    return document.documentElement.classList.contains("has-drawer");
  }

  /** @param {boolean} move whether the focus goes along */
  #toggle(open, move = true) {
    document.documentElement.classList.toggle("has-drawer", open);
    this.#buttons.forEach((button) => button.setAttribute("aria-expanded", String(open)));
    if (move) (open ? this.querySelector("a") : this.#buttons.find((button) => !this.contains(button))).focus();
  }

  /** What is open here takes Esc, so that it does not stop the session as well. */
  #escape(event) {
    const menu = this.querySelector("details[open]");
    if (event.key !== "Escape" || event.defaultPrevented || (!menu && !this.#isOpen)) return;
    if (document.querySelector("dialog[open]")) return; // the browser closes it
    event.preventDefault();
    if (!menu) return this.#toggle(false);
    menu.open = false;
    menu.querySelector("summary").focus();
  }

  #clicked(target) {
    const menu = this.querySelector("details[open]");
    if (menu && !menu.contains(target)) menu.open = false;
    if (!this.#isOpen || this.#buttons.some((button) => button.contains(target))) return;
    if (target.closest("dialog, [popover]") || !target.isConnected) return;
    if (!this.contains(target) || target.closest("a")) this.#toggle(false);
  }
}

customElements.define("studio-sidebar", StudioSidebar);
