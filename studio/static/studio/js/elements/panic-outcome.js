/**
 * `<studio-panic-outcome>`: what a panic did, in the server's own counts; it stays until it is closed.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { number } from "#studio/format";
import { describeNotice } from "#studio/notice";
import { fill, gettext } from "#studio/text";

class StudioPanicOutcome extends StudioElement {
  listen() {
    this.find("dismiss").addEventListener("click", () => this.actions.closePanic());
  }

  render({ panic }) {
    if (!this.changed(panic)) return;
    this.find("outcome").hidden = !panic.asked && panic.reply === null;
    this.find("dismiss").hidden = panic.asked;
    setText(this.find("words"), outcomeWords(panic));
  }
}

function outcomeWords({ asked, reply }) {
  if (asked) return gettext("Stopping everything…");
  if (reply === null) return "";
  if (!reply.ok) return `${gettext("Panic was not carried out.")} ${describeNotice(reply).text}`;
  return fill(gettext("Panic: %(aborted)s stopped, %(unconfirmed)s not confirmed yet, %(active)s still running."), {
    aborted: number(reply.abortedCount),
    unconfirmed: number(reply.unconfirmedCount),
    active: number(reply.activeCount),
  });
}

customElements.define("studio-panic-outcome", StudioPanicOutcome);
