/**
 * The parts of an answer: text, reasoning that is folded, tool calls as cards.
 */
import { setText, slot, write } from "#studio/dom";
import { duration } from "#studio/format";
import { showText } from "#studio/prose";
import { fill, gettext } from "#studio/text";
import { writtenMs } from "#studio/timeline";

const TOOL_STATES = {
  running: () => gettext("running"),
  completed: () => gettext("done"),
  error: () => gettext("failed"),
  aborted: () => gettext("stopped"),
  unstoppable: () => gettext("could not be stopped; its result will be ignored"),
};

/** @param {HTMLElement} element cloned for a part of this kind @param {boolean} open whether it still grows */
export function showPart(element, part, message, open) {
  SHOW[part.kind](element, part, message, open);
}

const SHOW = {
  text: (element, { text }, _, open) => showText(element, text, { open }),
  reasoning(element, { text, index }, message, open) {
    write(element, { summary: open ? gettext("Thinking…") : thoughtWords(writtenMs(message, index)) });
    showText(slot(element, "body"), text, { open });
  },
  tool(element, { name, state, input, output, error, durationMs }) {
    element.dataset.state = state;
    const words = TOOL_STATES[state]?.() ?? state;
    write(element, { name, state: typeof durationMs === "number" ? `${words} · ${duration(durationMs)}` : words });
    section(element, "input", input);
    section(element, "output", output);
    section(element, "error", error);
  },
};

const thoughtWords = (ms) => (ms ? fill(gettext("Thought for %(time)s"), { time: duration(ms) }) : gettext("Reasoning"));

/** A section of a tool card is shown when it is there; what is not text is shown as JSON. */
function section(element, name, value) {
  const text = value === null || value === undefined || typeof value === "string" ? value : JSON.stringify(value, null, 2);
  slot(element, `${name}-section`).hidden = !text;
  setText(slot(element, name), text ?? "");
}
