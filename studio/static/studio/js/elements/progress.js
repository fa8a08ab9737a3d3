/**
 * `<studio-progress>`: what the run is doing right now, in one line. Its seconds tick here, between the server's words.
 */
import { codePointLength } from "#studio/codepoints";
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { number, seconds } from "#studio/format";
import { openConversation } from "#studio/reduce";
import { fill, gettext, ngettext } from "#studio/text";

const TICK_MS = 250;
const CHARS_PER_TOKEN = 4; // the server's own estimate while a provider has not told
const PHASES = {
  starting: () => gettext("Starting"),
  waiting: () => gettext("Waiting for the model"),
  streaming: () => gettext("Answering"),
  tool: ({ tool }) => (tool ? fill(gettext("Using %(tool)s"), { tool }) : gettext("Using a tool")),
  retrying: () => gettext("The provider failed; trying again"),
  stopping: () => gettext("Stopping"),
  settling: () => gettext("Saving"),
};

class StudioProgress extends StudioElement {
  #timer = null;
  #told = 0; // performance.now() of the latest progress

  render(state) {
    const conversation = openConversation(state);
    const active = conversation?.active ?? null;
    const progress = active?.progress ?? null;
    if (!this.changed(active?.executionId, progress, conversation?.stopping)) return;
    this.#told = performance.now();
    this.hidden = active === null;
    this.#write(progress, conversation?.stopping);
    clearInterval(this.#timer);
    if (active) this.#timer = setInterval(() => this.#write(progress, conversation.stopping), TICK_MS);
  }

  #write(progress, stopping) {
    const since = performance.now() - this.#told;
    const phase = stopping ? "stopping" : (progress?.phase ?? "starting");
    this.dataset.phase = phase;
    setText(this.find("phase"), PHASES[phase]?.(progress ?? {}) ?? phase);
    setText(this.find("details"), progress ? details(progress, since, this.#arrivedTokens()).join(" · ") : "");
  }

  /** Between the server's words the text that arrives is what tells of tokens. */
  #arrivedTokens() {
    const { messages, active } = openConversation(this.store.state);
    const parts = messages.find(({ id }) => id === active?.messageId)?.parts ?? [];
    const characters = parts.map(({ text = "" }) => codePointLength(text)).reduce((sum, length) => sum + length, 0);
    return Math.ceil(characters / CHARS_PER_TOKEN);
  }
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
