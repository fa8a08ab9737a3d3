/**
 * `<studio-shortcuts>`: what keys do on the whole page, and the sheet that tells of them.
 *
 * It hears a key last, on the window: whoever is open and takes Esc for itself prevents its default. What a command goes to
 * carries `data-shortcut`.
 */
import { StudioElement } from "#studio/elements/studio-element";
import { commandOf, isMac } from "#studio/keys";

const OPEN = "dialog[open], :popover-open";
const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable]";

class StudioShortcuts extends StudioElement {
  #mac = isMac(navigator.platform);

  listen() {
    window.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("click", ({ target }) => target.closest("[data-shortcut=help]") && this.#help());
    this.find("close").addEventListener("click", () => this.find("dialog").close());
    const bare = this.find("bare");
    bare.checked = this.memory.load("bareKeys", true);
    bare.addEventListener("change", () => this.memory.save("bareKeys", bare.checked));
    if (this.#mac) nameModForMac();
  }

  #key(event) {
    if (event.defaultPrevented || document.querySelector(OPEN)) return;
    const typing = event.target.matches?.(FIELDS) ?? false;
    const command = commandOf(event, { typing, mac: this.#mac, bare: this.find("bare").checked });
    if (command === null || (command === "stop" && event.target.matches?.("select"))) return; // its list may be open
    if (DO[command]() !== false) event.preventDefault();
  }

  #help() {
    this.find("dialog").showModal();
  }
}

const composer = () => document.querySelector("studio-composer");

/** Each returns `false` where there was nothing to do, so that the key keeps its usual meaning. */
const DO = {
  stop: () => composer().stop(),
  write: () => composer().focusText(),
  help: () => goTo("help"),
  search: () => goTo("search"),
  new: () => goTo("new"),
  end: () => goTo("end"),
  previous: () => step(-1),
  next: () => step(1),
};

/** A field is gone into, also where it lies in the drawer; anything else is pressed. */
function goTo(name) {
  const target = document.querySelector(`[data-shortcut=${name}]`);
  if (target === null) return false;
  if (!target.matches(FIELDS)) return target.click();
  if (!target.checkVisibility({ visibilityProperty: true })) document.querySelector("[aria-controls=sidebar]").click();
  target.focus();
  return target.select();
}

function nameModForMac() {
  document.querySelectorAll("[data-mod]").forEach((key) => (key.textContent = "⌘"));
  document.querySelectorAll("[data-shortcut]").forEach((target) => (target.title = target.title.replace("Ctrl", "⌘")));
}

/** To the session beside the open one, in the order of the list. */
function step(by) {
  const links = [...document.querySelectorAll("studio-sessions a[data-route]")];
  const current = links.findIndex((link) => link.ariaCurrent === "page");
  const next = links[current < 0 ? 0 : current + by];
  return next ? next.click() : false;
}

customElements.define("studio-shortcuts", StudioShortcuts);
