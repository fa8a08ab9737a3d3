/**
 * How an answer ended, in the reader's words: one card for each reason. Pure.
 *
 * Promise: it reads only the stored message, so that a card is the same after a reload. The contract's fixed `error`
 * texts of an abort are never shown.
 */
import { codePointLength } from "#studio/codepoints";
import { cost, duration, moment, number } from "#studio/format";
import { fill, gettext, ngettext } from "#studio/text";

/**
 * @param {object} message a settled assistant row
 * @param {{userName: string}} reader
 * @returns {null | {tone: string, title: string, subtle: boolean, detail: string, reason: string, kept: string, facts: {label: string,
 *   value: string}[], advice: string}} null for a clean end and for one still to come
 */
export function describeEnding(message, reader) {
  if (message.status !== "aborted" && message.status !== "error") return null;
  const words = message.status === "error" ? (limitWords(message) ?? errorWords(message)) : abortWords(message);
  const subtle = message.abortReason === "user_interrupt";
  const reason = message.stop?.reason ? fill(gettext("Reason: %(reason)s"), { reason: message.stop.reason }) : "";
  return { detail: "", ...words, subtle, reason, kept: kept(message), facts: facts(message, reader) };
}

/** @returns {null | {tone: string, title: string, subtle: true}} what a reader of an answer that ended well should know */
export function endingNote({ status, finishReason }) {
  const title = status === "completed" && NOTES[finishReason]?.();
  return title ? { tone: "quiet", title, subtle: true } : null;
}

/** Only what has a beginning can be continued: text that had arrived, or the result of a tool. */
export const canContinue = ({ text, parts }) => text.trim() !== "" || toolResults(parts) > 0;

/** @returns {string} how long the answer took, or an empty text while that is not known */
export function tookWords({ createdAt, finishedAt }) {
  return createdAt && finishedAt ? duration(Math.max(0, new Date(finishedAt) - new Date(createdAt))) : "";
}

/** What a live region says about an end, once. */
export function announceEnding({ status, abortReason, timeoutKind }) {
  if (status === "completed") return gettext("The answer is complete.");
  if (status === "error") return gettext("The answer ended with an error.");
  return abortWords({ abortReason, timeoutKind }).title;
}

/** @returns {string[]} tokens and cost, as far as they are known */
export function usageWords(usage) {
  if (!usage) return [];
  const tokens = fill(gettext("%(input)s in, %(output)s out"), {
    input: number(usage.inputTokens),
    output: number(usage.outputTokens),
  });
  const words = [usage.estimated ? fill(gettext("about %(tokens)s"), { tokens }) : tokens];
  return usage.costUsd === null || usage.costUsd === undefined ? words : [...words, cost(usage.costUsd)];
}

const NOTES = {
  length: () => gettext("The answer ends here because the model gives no longer ones"),
  content_filter: () => gettext("The provider's filter ended this answer"),
};

const LIMITS = {
  max_output_tokens: () => gettext("Limit reached: the longest answer"),
  max_cost: () => gettext("Limit reached: the cost of one answer"),
  repeated_call: () => gettext("Limit reached: the same tool call again and again"),
};

function limitWords({ finishReason, error }) {
  const title = LIMITS[finishReason]?.();
  const advice = gettext("What had arrived is kept. Continue goes on from here with a new allowance.");
  return title ? { tone: "limit", title, detail: error ?? "", advice } : null;
}

function errorWords({ error }) {
  return {
    tone: "error",
    title: gettext("The model could not finish"),
    detail: error ?? "",
    advice: gettext("Your message and what had arrived are kept. Send again, or choose another model."),
  };
}

function abortWords({ abortReason, timeoutKind }) {
  const say = ABORTS[abortReason] ?? unknownAbort;
  return say(timeoutKind);
}

const ABORTS = {
  session_stop: () => ({
    tone: "stop",
    title: gettext("Session stopped"),
    advice: gettext("Write your next message to go on from here."),
  }),
  panic_stop: () => ({
    tone: "panic",
    title: gettext("Stopped by Panic"),
    advice: gettext("An operator stopped what was running. You can send again as soon as no hold is shown above."),
  }),
  timeout: (timeoutKind) => ({ tone: "timeout", ...timeoutWords(timeoutKind) }),
  user_interrupt: () => ({ tone: "quiet", title: gettext("Partial: interrupted by your next message"), advice: "" }),
  disconnect: () => ({
    tone: "lost",
    title: gettext("Stopped: nobody was watching"),
    advice: gettext("This studio ends answers that nobody watches. Send again and keep the page open."),
  }),
  shutdown: () => ({
    tone: "lost",
    title: gettext("Stopped: the server was shut down or restarted"),
    advice: gettext("Nothing is wrong with your message. Send again to go on."),
  }),
  worker_lost: () => ({
    tone: "lost",
    title: gettext("Lost: the server process stopped working"),
    advice: gettext("What had been saved is kept; up to half a second of text may be missing. Send again to go on."),
  }),
  deleted: () => ({
    tone: "lost",
    title: gettext("Stopped: the session was deleted"),
    advice: gettext("Start a new session to go on."),
  }),
};

function unknownAbort() {
  return { tone: "lost", title: gettext("Stopped"), advice: gettext("Send again to go on.") };
}

function timeoutWords(kind) {
  const words = {
    first_token: {
      title: gettext("Timeout: the model did not begin to answer"),
      advice: gettext("Send again, or choose another model."),
    },
    idle: {
      title: gettext("Timeout: the model fell silent"),
      advice: gettext("What had arrived is kept. Send again, or choose another model."),
    },
  };
  const total = {
    title: gettext("Timeout: the answer took too long"),
    advice: gettext("Ask for less at once, or ask an operator for a longer limit."),
  };
  return words[kind] ?? total;
}

function kept({ text, parts }) {
  const length = codePointLength(text);
  const tools = toolResults(parts);
  const words = [];
  const count = text.match(/\S+/gu)?.length ?? 0;
  if (count) words.push(fill(ngettext("%(n)s word", "%(n)s words", count), { n: number(count) }));
  if (length) words.push(fill(ngettext("%(n)s character", "%(n)s characters", length), { n: number(length) }));
  if (tools) words.push(fill(ngettext("%(n)s tool result", "%(n)s tool results", tools), { n: number(tools) }));
  return words.length ? words.join(" · ") : gettext("Nothing had arrived yet");
}

const toolResults = (parts) => parts.filter(({ kind, state }) => kind === "tool" && state === "completed").length;

function facts({ stop, finishedAt, usage }, { userName }) {
  const by = stop?.by === userName ? fill(gettext("you (%(name)s)"), { name: userName }) : stop?.by;
  const at = stop?.requestedAt ?? finishedAt;
  const rows = [
    [gettext("By"), by],
    [gettext("From"), SOURCES[stop?.source]?.()],
    [gettext("At"), at && moment(at)],
    [gettext("Connection to the model closed after"), measured(stop?.upstreamClosedMs)],
    [gettext("Saved after"), measured(stop?.settledMs)],
    [gettext("Tokens"), usageWords(usage).join(" · ")],
  ];
  return rows.filter(([, value]) => value).map(([label, value]) => ({ label, value }));
}

/** Where it was ordered, if not here. */
const SOURCES = {
  admin: () => gettext("the administration"),
  command: () => gettext("the command line"),
  hold: () => gettext("a hold on new runs"),
};

const measured = (ms) => (ms === null || ms === undefined ? "" : duration(ms));
