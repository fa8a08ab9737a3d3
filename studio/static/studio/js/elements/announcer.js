/**
 * `<studio-announcer>`: tells a screen reader each end, once; never the text as it streams.
 */
import { StudioElement } from "#studio/elements/studio-element";
import { announceEnding } from "#studio/ending";

class StudioAnnouncer extends StudioElement {
  render({ announcement }) {
    if (this.changed(announcement) && announcement) this.textContent = announceEnding(announcement);
  }
}

customElements.define("studio-announcer", StudioAnnouncer);
