/**
 * `<studio-panic-outcome>`: what a panic did, in the server's own counts; it stays until it is closed or the session left.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { number } from "#studio/format";
import { describeNotice } from "#studio/notice";
import { fill, gettext, ngettext } from "#studio/text";

class StudioPanicOutcome extends StudioElement {
  listen() {
    this.find("dismiss").addEventListener("click", () => this.actions.closePanic());
  }

  render({ panic }) {
    if (!this.changed(panic)) return;
    this.find("outcome").hidden = !panic.asked && panic.reply === null;
    this.find("outcome").classList.toggle("is-calm", isCalm(panic.reply));
    this.find("dismiss").hidden = panic.asked;
    setText(this.find("words"), outcomeWords(panic));
  }
}

function outcomeWords({ asked, reply }) {
  if (asked) return gettext("Stopping everything…");
  if (reply === null) return "";
  if (!reply.ok) return `${gettext("Panic was not carried out.")} ${describeNotice(reply).text}`;
  if (isCalm(reply)) return gettext("Panic: nothing was running.");
  return fill(gettext("Panic: %(counts)s."), { counts: countWords(reply).join(", ") });
}

/** Nothing ran, so nothing was stopped and nothing is left. */
function isCalm(reply) {
  return Boolean(reply?.ok) && reply.abortedCount + reply.unconfirmedCount + reply.activeCount === 0;
}

/** An order that is not confirmed is still counted among the running; what is not zero is said. */
function countWords({ abortedCount, unconfirmedCount, activeCount }) {
  const say = (words, count) => fill(words, { n: number(count) });
  const stopped = say(ngettext("%(n)s run was stopped", "%(n)s runs were stopped", abortedCount), abortedCount);
  const unconfirmed = unconfirmedCount > 0 && say(gettext("%(n)s not confirmed yet"), unconfirmedCount);
  const left = activeCount > 0 ? say(gettext("%(n)s still running"), activeCount) : gettext("nothing is running now");
  return [stopped, unconfirmed, left].filter(Boolean);
}

customElements.define("studio-panic-outcome", StudioPanicOutcome);
