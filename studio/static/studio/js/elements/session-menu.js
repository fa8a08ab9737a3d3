/**
 * `<studio-session-menu>`: what can be done with one session of the list: rename, export, delete. One menu for all of them,
 * beside the button that opened it. The browser closes it when the reader turns elsewhere.
 */
import { StudioElement } from "#studio/elements/studio-element";

const MARGIN_PX = 8;
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

class StudioSessionMenu extends StudioElement {
  #key = null;
  #button = null;

  listen() {
    document.querySelector("studio-sessions").addEventListener("click", ({ target }) => {
      const button = target.closest("[data-slot=options]");
      if (button) this.#open(button);
    });
    this.addEventListener("keydown", (event) => this.#keydown(event));
    this.addEventListener("click", ({ target }) => this.#chosen(target.closest("[role=menuitem]")));
    this.addEventListener("toggle", ({ newState }) => this.#button.setAttribute("aria-expanded", String(newState === "open")));
  }

  #open(button) {
    this.#key = button.closest("[data-key]").dataset.key;
    this.#button = button;
    for (const link of this.querySelectorAll("a")) {
      link.href = this.page.urls.export.replace("KEY", this.#key).replace("FORM", link.dataset.form);
    }
    this.showPopover();
    this.#place(button.getBoundingClientRect());
    this.#items[0].focus();
  }

  get #items() {
    return [...this.querySelectorAll("[role=menuitem]")];
  }

  /** Below the button, or above it where there is no room. */
  #place({ top, bottom, right }) {
    const { offsetWidth, offsetHeight } = this;
    const below = bottom + offsetHeight + MARGIN_PX <= innerHeight;
    this.style.left = `${Math.max(MARGIN_PX, Math.min(right, innerWidth - MARGIN_PX) - offsetWidth)}px`;
    this.style.top = `${Math.max(MARGIN_PX, below ? bottom : top - offsetHeight)}px`;
  }

  /** Esc closes the menu and nothing else. */
  #keydown(event) {
    const items = this.#items;
    const at = items.indexOf(document.activeElement);
    if (event.key in STEPS) items.at((at + STEPS[event.key]) % items.length).focus();
    else if (event.key === "Home" || event.key === "End") items.at(event.key === "Home" ? 0 : -1).focus();
    else if (event.key === "Escape" || event.key === "Tab") this.#close();
    else return;
    event.preventDefault();
  }

  #close() {
    this.hidePopover();
    this.#button.focus();
  }

  #chosen(item) {
    if (!item) return;
    this.#close();
    if (item.dataset.do === "rename") document.querySelector("studio-sessions").startRename(this.#key);
    if (item.dataset.do === "delete") document.querySelector("studio-session-delete").ask(this.#key);
  }
}

customElements.define("studio-session-menu", StudioSessionMenu);
