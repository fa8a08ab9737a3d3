/**
 * `<studio-announcer>`: tells a screen reader each end, once; never the text as it streams. While the next answer runs it is
 * empty, so that an end like the last one is said again.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { announceEnding } from "#studio/ending";
import { openConversation } from "#studio/reduce";

class StudioAnnouncer extends StudioElement {
  render(state) {
    const { announcement } = state;
    const running = openConversation(state).active !== null;
    if (!this.changed(announcement, running)) return;
    setText(this, running || announcement === null ? "" : announceEnding(announcement));
  }
}

customElements.define("studio-announcer", StudioAnnouncer);
