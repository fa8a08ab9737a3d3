/**
 * `<studio-progress>`: what the run is doing right now, in one line. Its seconds tick here, between the server's words.
 */
import { kindOf, modelOf } from "#studio/choice";
import { codePointLength } from "#studio/codepoints";
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { number, seconds } from "#studio/format";
import { openConversation } from "#studio/reduce";
import { fill, gettext, ngettext } from "#studio/text";

const TICK_MS = 250;
const SILENT_MS = 8000; // a model that streams and says nothing for so long deserves a word
const CHARS_PER_TOKEN = 4; // the server's own estimate while a provider has not told
const PHASES = {
  starting: ({ model }) => (kindOf(model) === "local" ? gettext("Loading the model") : gettext("Starting")),
  waiting: () => gettext("Waiting for the model"),
  streaming: () => gettext("Answering"),
  tool: ({ tool }) => (tool ? fill(gettext("Using %(tool)s"), { tool }) : gettext("Using a tool")),
  retrying: () => gettext("The provider failed; trying again"),
  stopping: () => gettext("Stopping…"),
  unheard: () => gettext("No connection; as last heard"),
  settling: () => gettext("Saving"),
};

class StudioProgress extends StudioElement {
  #timer = null;
  #told = { progress: null, at: 0 }; // the latest progress, and performance.now() when it came
  #heard = { message: null, at: 0 }; // the answer as it last grew, and when

  render(state) {
    const conversation = openConversation(state);
    const active = conversation?.active ?? null;
    const progress = active?.progress ?? null;
    const message = conversation?.messages.find(({ id }) => id === active?.messageId) ?? null;
    if (message !== this.#heard.message) this.#heard = { message, at: performance.now() };
    const { status } = state.connection;
    if (!this.changed(active?.executionId, progress, conversation?.stopping, status)) return;
    if (progress !== this.#told.progress) this.#told = { progress, at: performance.now() };
    this.hidden = active === null;
    clearInterval(this.#timer);
    if (active === null) return;
    const phase = phaseOf(conversation, status);
    this.#write(progress, phase);
    this.#timer = setInterval(() => this.#write(progress, phase), TICK_MS);
  }

  #write(progress, phase) {
    const since = performance.now() - this.#told.at;
    const model = this.#heard.message?.model ?? modelOf(this.store.state);
    this.dataset.phase = phase;
    const silence = phase === "streaming" ? this.#silence() : "";
    setText(this.find("phase"), silence || (PHASES[phase]?.({ ...progress, model }) ?? phase));
    setText(this.find("details"), details({ ...progress, phase }, since, this.#arrivedTokens()).join(" · "));
  }

  #silence() {
    const ms = performance.now() - this.#heard.at;
    return ms < SILENT_MS ? "" : fill(gettext("No word for %(time)s"), { time: seconds(ms) });
  }

  /** Between the server's words the text that arrives is what tells of tokens. */
  #arrivedTokens() {
    const parts = this.#heard.message?.parts ?? [];
    const characters = parts.map(({ text = "" }) => codePointLength(text)).reduce((sum, length) => sum + length, 0);
    return Math.ceil(characters / CHARS_PER_TOKEN);
  }
}

/** What was heard before the connection broke may not be so any more. */
function phaseOf({ active, stopping }, connection) {
  if (connection !== "live") return "unheard";
  return stopping ? "stopping" : (active.progress?.phase ?? "starting");
}

function details({ phase, step, maxSteps, attempt, retryInMs, elapsedMs, outputTokens }, since, arrivedTokens) {
  const tokens = Math.max(outputTokens ?? 0, arrivedTokens);
  const words = [];
  if (phase === "retrying" && attempt) words.push(fill(gettext("attempt %(n)s"), { n: number(attempt) }));
  if (phase === "retrying" && retryInMs) {
    words.push(fill(gettext("in %(time)s"), { time: seconds(Math.max(0, retryInMs - since) + 999) }));
  }
  if (step && maxSteps) words.push(fill(gettext("step %(n)s of %(m)s"), { n: number(step), m: number(maxSteps) }));
  words.push(seconds((elapsedMs ?? 0) + since));
  if (tokens) words.push(fill(ngettext("%(n)s token", "%(n)s tokens", tokens), { n: number(tokens) }));
  return words;
}

customElements.define("studio-progress", StudioProgress);
