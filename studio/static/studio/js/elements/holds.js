/**
 * `<studio-holds>`: who holds new runs, since when and why; shown to everyone affected, released by those who may.
 */
import { clone, reconcile, slot, write } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { moment } from "#studio/format";
import { fill, gettext } from "#studio/text";

class StudioHolds extends StudioElement {
  listen() {
    this.addEventListener("click", ({ target }) => {
      const release = target.closest("[data-slot=release]");
      if (release) this.actions.release(release.closest("[data-key]").dataset.key);
    });
  }

  render({ holds, options }) {
    if (!this.changed(holds, options)) return;
    reconcile(this.find("list"), holds, {
      key: ({ id }) => id,
      create: () => clone("hold-item"),
      update: (item, hold) => {
        const since = { name: hold.by, time: moment(hold.at) };
        write(item, { words: fill(gettext("New runs are held by %(name)s since %(time)s."), since), why: hold.reason });
        slot(item, "release").hidden = !options?.permissions.panic;
      },
    });
  }
}

customElements.define("studio-holds", StudioHolds);
