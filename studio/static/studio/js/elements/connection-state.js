/**
 * `<studio-connection>`: live, reconnecting, offline or closed; in words, and with a way to try again.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { gettext } from "#studio/text";

const WORDS = {
  connecting: () => gettext("Connecting…"),
  live: () => gettext("Live"),
  reconnecting: () => gettext("Reconnecting…"),
  offline: () => gettext("Offline"),
  closed: (code) => CLOSED[code]?.() ?? gettext("Closed by the server"),
};
const CLOSED = {
  4403: () => gettext("No permission"),
  4429: () => gettext("Closed: too many requests"),
  1009: () => gettext("Closed: a message was too large"),
};

class StudioConnection extends StudioElement {
  listen() {
    this.find("again").addEventListener("click", () => this.actions.reconnect());
  }

  render({ connection: { status, code } }) {
    if (!this.changed(status, code)) return;
    this.dataset.status = status;
    setText(this.find("words"), WORDS[status](code));
    this.find("again").hidden = status !== "closed" && status !== "reconnecting";
  }
}

customElements.define("studio-connection", StudioConnection);
