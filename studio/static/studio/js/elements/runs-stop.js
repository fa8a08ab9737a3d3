/**
 * `<studio-runs-stop>`: stops what is chosen, behind one question that says how much it is, and tells how that went.
 *
 * Others ask it by the event `studio-stop-runs`, whose detail is the rows.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { number } from "#studio/format";
import { canStop } from "#studio/runs";
import { countOutcomes, shownRows } from "#studio/runs-view";
import { fill, gettext, ngettext } from "#studio/text";

const NAMED_MAX = 3; // people who are named in the question

class StudioRunsStop extends StudioElement {
  #asked = [];
  #before = null; // where the focus was

  listen() {
    this.find("stop").addEventListener("click", () => this.#ask(this.#chosen(this.store.state)));
    this.find("clear").addEventListener("click", () => this.#clear());
    this.find("dismiss").addEventListener("click", () => this.actions.closeBatch());
    this.find("cancel").addEventListener("click", () => this.find("dialog").close());
    this.find("form").addEventListener("submit", (event) => this.#confirm(event));
    this.find("confirm").addEventListener("keydown", (event) => event.repeat && event.preventDefault());
    this.find("dialog").addEventListener("close", () => this.#before?.focus());
    document.addEventListener("studio-stop-runs", ({ detail }) => this.#ask(detail));
  }

  render(state) {
    const { rows, selected, filters, batch, stops, options } = state;
    if (!this.changed(rows, selected, filters, batch, stops, options)) return;
    const chosen = this.#chosen(state).length;
    this.find("chosen").hidden = chosen === 0;
    setText(this.find("count"), fill(ngettext("%(n)s chosen", "%(n)s chosen", chosen), { n: number(chosen) }));
    setText(this.find("stop-label"), stopWords(chosen));
    const told = batchWords(batch, stops);
    setText(this.find("told"), told);
    this.find("dismiss").hidden = told === "";
  }

  /** What a filter hides is not stopped. */
  #chosen(state) {
    if (state.selected.size === 0) return [];
    return shownRows(state, Date.now()).filter((row) => state.selected.has(row.id) && this.#may(row, state));
  }

  #may(row, state) {
    return canStop(row, state, this.page.userName);
  }

  #clear() {
    this.actions.select([...this.store.state.selected], false);
    document.querySelector("studio-runs-table").focusRow();
  }

  #ask(rows) {
    this.#asked = rows.filter((row) => this.#may(row, this.store.state));
    if (this.#asked.length === 0) return;
    this.#before = document.activeElement;
    setText(this.find("title"), `${stopWords(this.#asked.length)}?`);
    setText(this.find("whose"), whoseWords(this.#asked));
    setText(this.find("confirm"), stopWords(this.#asked.length));
    this.find("dialog").showModal();
    this.find("confirm").focus();
  }

  #confirm(event) {
    event.preventDefault();
    this.actions.stop(this.#asked);
    this.#before = document.querySelector("studio-runs-table");
    this.find("dialog").close();
    this.#before.focusRow();
  }
}

const stopWords = (count) => fill(ngettext("Stop %(n)s run", "Stop %(n)s runs", count), { n: number(count) });

function whoseWords(rows) {
  const people = [...new Set(rows.map(({ user }) => user ?? "–"))];
  if (people.length <= NAMED_MAX) return fill(gettext("Of %(names)s."), { names: people.join(", ") });
  return fill(gettext("Of %(n)s people."), { n: number(people.length) });
}

/** Said once all are answered; until then, how many are awaited. What is zero is not said. */
function batchWords(batch, stops) {
  if (batch.length === 0) return "";
  const { asked, confirmed, unconfirmed, finished, failed } = countOutcomes(batch, stops);
  if (asked > 0) return fill(ngettext("Stopping %(n)s run…", "Stopping %(n)s runs…", asked), { n: number(asked) });
  const say = (count, words) => (count > 0 ? [fill(words, { n: number(count) })] : []);
  const parts = [
    ...say(confirmed, ngettext("%(n)s stopped and confirmed", "%(n)s stopped and confirmed", confirmed)),
    ...say(unconfirmed, ngettext("%(n)s ordered, not confirmed yet", "%(n)s ordered, not confirmed yet", unconfirmed)),
    ...say(finished, ngettext("%(n)s had already finished", "%(n)s had already finished", finished)),
    ...say(failed, ngettext("%(n)s could not be stopped", "%(n)s could not be stopped", failed)),
  ];
  return `${parts.join(" · ")}.`;
}

customElements.define("studio-runs-stop", StudioRunsStop);
