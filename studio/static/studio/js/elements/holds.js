/**
 * `<studio-holds>`: who holds new runs, since when and why; shown to everyone affected, released by those who may.
 */
import { clone, reconcile, setText, slot, write } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { waited } from "#studio/format";
import { holdWords } from "#studio/hold-words";
import { fill, gettext } from "#studio/text";

const TICK_MS = 10_000;

class StudioHolds extends StudioElement {
  listen() {
    this.addEventListener("click", ({ target }) => {
      const release = target.closest("[data-slot=release]");
      if (release) this.actions.release(release.closest("[data-key]").dataset.key);
    });
    setInterval(() => this.#showAges(), TICK_MS);
  }

  render({ holds, options }) {
    if (!this.changed(holds, options)) return;
    reconcile(this.find("list"), holds, {
      key: ({ id }) => id,
      create: () => clone("hold-item"),
      update: (item, hold) => {
        const why = hold.reason && fill(gettext("Reason: %(reason)s"), { reason: hold.reason });
        write(item, { words: holdWords(hold, this.page.userName, options), why });
        slot(item, "age").dateTime = new Date(hold.at).toISOString();
        slot(item, "release").hidden = !options?.permissions.panic;
      },
    });
    this.#showAges();
  }

  #showAges() {
    for (const time of this.querySelectorAll("time")) setText(time, waited(Date.now() - new Date(time.dateTime)));
  }
}

customElements.define("studio-holds", StudioHolds);
