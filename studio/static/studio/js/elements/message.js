/**
 * `<studio-message>`: one row of the conversation: its parts in order, and how it ended.
 */
import { modelName } from "#studio/choice";
import { clone, reconcile, setText, slot, write } from "#studio/dom";
import { canContinue, describeEnding, tookWords, usageWords } from "#studio/ending";
import { gettext } from "#studio/text";
import { showText } from "#studio/prose";

const TOOL_STATES = {
  running: () => gettext("running"),
  completed: () => gettext("done"),
  error: () => gettext("failed"),
  aborted: () => gettext("stopped"),
  unstoppable: () => gettext("could not be stopped; its result will be ignored"),
};
const TEMPLATES = { text: "part-text", reasoning: "part-reasoning", tool: "part-tool" };

class StudioMessage extends HTMLElement {
  #message = null;
  #around = null;
  #fate = undefined;

  /** What a copy takes: the answer as the model wrote it. */
  get source() {
    return this.#message.text;
  }

  /**
   * @param {object} message
   * @param {{page: object, actions: object, options: object|null, latestId: string|null}} around same object while the same
   * @param {"replaced"|"continued"} [fate] what became of it later
   */
  show(message, around, fate) {
    if (message === this.#message && around === this.#around && fate === this.#fate) return;
    this.#message = message;
    this.#around = around;
    this.#fate = fate;
    this.dataset.status = message.status;
    if (message.role === "user") return setText(slot(this, "text"), message.text);
    this.#showParts(message);
    this.#showEnding(message);
    this.#showFooter(message);
  }

  #showParts({ parts, status }) {
    const streaming = status === "streaming";
    slot(this, "waiting").hidden = !streaming || parts.length > 0;
    reconcile(slot(this, "parts"), parts.map((part, index) => ({ ...part, index })), {
      key: ({ index, kind }) => `${index}-${kind}`,
      create: ({ kind }) => clone(TEMPLATES[kind]),
      update: (element, part) => PARTS[part.kind](element, part, streaming && part.index === parts.length - 1),
    });
  }

  #showEnding(message) {
    const place = slot(this, "ending");
    const ending = describeEnding(message, this.#around.page);
    place.hidden = ending === null;
    if (ending === null) return;
    const card = clone(ending.subtle ? "ending-line" : "ending-card");
    card.dataset.tone = ending.tone;
    write(card, { title: ending.title });
    if (!ending.subtle) this.#fillCard(card, ending);
    place.replaceChildren(card);
  }

  #fillCard(card, { detail, reason, kept, facts, advice }) {
    write(card, { detail, reason, kept, advice: this.#fate ? "" : advice });
    reconcile(slot(card, "facts"), facts, {
      key: ({ label }) => label,
      create: () => clone("ending-fact"),
      update: (row, { label, value }) => write(row, { label, value }),
    });
    this.#offerAgain(slot(card, "actions"));
  }

  /** The buttons go with the card, so the focus goes where the next message is written. */
  #offerAgain(actions) {
    const { options, latestId } = this.#around;
    actions.hidden = latestId !== this.#message.id || !options?.features.includes("continue");
    actions.querySelector("[data-again=continue]").hidden = !canContinue(this.#message);
    actions.addEventListener("click", ({ target }) => {
      const { again } = target.closest("button")?.dataset ?? {};
      if (!again) return;
      this.#around.actions.again(again, this.#message.sessionKey, this.#message.id);
      document.querySelector("studio-composer").focusText();
    });
  }

  /** Who answered, in what time, for how much; the card of an unclean end tells of tokens itself. */
  #showFooter(message) {
    const { status, model, usage, text } = message;
    const counted = status === "completed" ? usageWords(usage) : [];
    const facts = [model && modelName(model, this.#around.options), tookWords(message), ...counted];
    write(this, {
      told: status === "streaming" ? "" : facts.filter(Boolean).join(" · "),
      fate: this.#fate === "continued" ? gettext("Continued below") : "",
    });
    slot(this, "copy").hidden = status === "streaming" || !text;
  }
}

const PARTS = {
  text: (element, { text }, open) => showText(element, text, { open }),
  reasoning(element, { text }, open) {
    write(element, { summary: open ? gettext("Thinking…") : gettext("Reasoning") });
    showText(slot(element, "body"), text, { open });
  },
  tool(element, { name, state, input, output, error }) {
    element.dataset.state = state;
    write(element, { name, state: TOOL_STATES[state]?.() ?? state });
    section(element, "input", input);
    section(element, "output", output);
    section(element, "error", error);
  },
};

/** A part of a tool card is shown when it is there; what is not text is shown as JSON. */
function section(element, name, value) {
  const text = value === null || value === undefined || typeof value === "string" ? value : JSON.stringify(value, null, 2);
  slot(element, `${name}-section`).hidden = !text;
  setText(slot(element, name), text ?? "");
}

customElements.define("studio-message", StudioMessage);
