/**
 * `<studio-connection>`: live, reconnecting, offline or closed; in words, and with a way to try again.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { seconds } from "#studio/format";
import { fill, gettext } from "#studio/text";

const TICK_MS = 500;

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
  #timer = null;

  listen() {
    this.find("again").addEventListener("click", () => this.actions.reconnect());
  }

  render({ connection }) {
    const { status, code } = connection;
    if (!this.changed(connection)) return;
    this.dataset.status = status;
    setText(this.find("words"), WORDS[status](code));
    this.find("again").hidden = status !== "closed" && status !== "reconnecting" && status !== "offline";
    this.#countDown(connection.retryInMs);
  }

  /** Seen, and not said: a live region that counts is a noise. */
  #countDown(ms) {
    const until = performance.now() + ms;
    clearInterval(this.#timer);
    const show = () => setText(this.find("retry"), retryWords(until - performance.now()));
    this.find("retry").hidden = !ms;
    if (!ms) return;
    show();
    this.#timer = setInterval(show, TICK_MS);
  }
}

const retryWords = (ms) => fill(gettext("in %(time)s"), { time: seconds(Math.max(0, ms) + 999) });

customElements.define("studio-connection", StudioConnection);
