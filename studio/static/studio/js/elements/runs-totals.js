/**
 * `<studio-runs-totals>`: how much runs everywhere, in one line, and what went wrong with an order.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { cost, number } from "#studio/format";
import { describeNotice } from "#studio/notice";
import { fill, gettext, ngettext } from "#studio/text";
import { totalsOf } from "#studio/watching";

class StudioRunsTotals extends StudioElement {
  listen() {
    this.find("notice-close").addEventListener("click", () => this.actions.closeNotice());
  }

  render({ live, notice }) {
    if (!this.changed(live?.groups, live?.executions.length, notice)) return;
    if (live !== null) this.#write(totalsOf(live), live.executions.length);
    this.find("notice").hidden = notice === null;
    if (notice !== null) setText(this.find("notice-text"), noticeWords(describeNotice(notice)));
  }

  #write(totals, shown) {
    setText(this.find("words"), totalWords(totals).join(" · "));
    const cut = totals.runs > shown ? fill(gettext("The newest %(n)s are listed."), { n: number(shown) }) : "";
    setText(this.find("cut"), cut);
    document.title = `${totals.runs > 0 ? `● ${totals.runs} · ` : ""}${gettext("Runs")} · Studio`;
  }
}

/** What is zero is not said. */
function totalWords({ runs, people, waiting, inputTokens, outputTokens, costUsd }) {
  const say = (words, n) => fill(words, { n: number(n) });
  const tokens = { input: number(inputTokens), output: number(outputTokens) };
  return [
    runs > 0 ? say(ngettext("%(n)s run", "%(n)s runs", runs), runs) : gettext("No runs"),
    people > 0 && say(ngettext("%(n)s person", "%(n)s people", people), people),
    runs > 0 && fill(gettext("%(input)s tokens in, %(output)s out"), tokens),
    costUsd !== null && cost(costUsd),
    waiting > 0 && say(ngettext("%(n)s message queued", "%(n)s messages queued", waiting), waiting),
  ].filter(Boolean);
}

const noticeWords = ({ text, detail }) => [text, detail].filter(Boolean).join(" ");

customElements.define("studio-runs-totals", StudioRunsTotals);
