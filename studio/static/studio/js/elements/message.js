/**
 * `<studio-message>`: one row of the conversation: its parts in order, how it ended, and what can be done with it.
 */
import { modelName } from "#studio/choice";
import { clone, reconcile, setText, slot, write } from "#studio/dom";
import { canContinue, describeEnding, endingNote, tookWords, usageWords } from "#studio/ending";
import { showPart } from "#studio/parts";
import { editMessage, editorFailed } from "#studio/resend";
import { showTimeline } from "#studio/show-timeline";
import { gettext } from "#studio/text";

const TEMPLATES = { text: "part-text", reasoning: "part-reasoning", tool: "part-tool" };

class StudioMessage extends HTMLElement {
  #message = null;
  #around = null;
  #fate = undefined;

  constructor() {
    super();
    this.addEventListener("click", (event) => this.#clicked(event));
  }

  /** What a copy takes: the message as it was written. */
  get source() {
    return this.#message.text;
  }

  /**
   * @param {object} message
   * @param {Around} around same object while the same
   * @param {"replaced"|"continued"} [fate] what became of it later
   */
  show(message, around, fate) {
    if (message === this.#message && around === this.#around && fate === this.#fate) return;
    const same = message === this.#message && fate === this.#fate;
    this.#message = message;
    this.#around = around;
    this.#fate = fate;
    this.dataset.status = message.status;
    if (message.role === "user") return this.#showUser();
    if (!same) this.#showAnswer(message);
    this.#showFooter(message);
    this.#offerAgain();
  }

  /** Open the editor of this message, which is the reader's last. */
  edit() {
    editMessage(this, this.#message, this.#around.actions);
  }

  #showUser() {
    setText(slot(this, "text"), this.#message.text);
    slot(this, "edit").hidden = !this.#mayAgain("resend", this.#around.lastUserId);
    if (this.#around.notice) editorFailed(this);
  }

  #showAnswer(message) {
    const { parts, status } = message;
    const streaming = status === "streaming";
    slot(this, "waiting").hidden = !streaming || parts.length > 0;
    reconcile(slot(this, "parts"), parts.map((part, index) => ({ ...part, index })), {
      key: ({ index, kind }) => `${index}-${kind}`,
      create: ({ kind }) => clone(TEMPLATES[kind]),
      update: (element, part) => showPart(element, part, message, streaming && part.index === parts.length - 1),
    });
    showTimeline(slot(this, "timeline"), message);
    this.#showEnding(message);
  }

  #showEnding(message) {
    const place = slot(this, "ending");
    const ending = describeEnding(message, this.#around.page) ?? endingNote(message);
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
  }

  /** A card offers every way to go on; a clean end only another answer, quietly. */
  #offerAgain() {
    const { lastAnswerId, lastUserId } = this.#around;
    const unclean = ["aborted", "error"].includes(this.#message.status);
    slot(this, "regenerate").hidden = this.#message.status !== "completed" || !this.#mayAgain("regenerate", lastAnswerId);
    const actions = this.querySelector("[data-slot=actions]");
    if (!actions) return;
    actions.hidden = !unclean || !this.#mayAgain("continue", lastAnswerId);
    actions.querySelector("[data-again=continue]").hidden = !canContinue(this.#message);
    actions.querySelector("[data-again=edit]").hidden = lastUserId === null;
  }

  #mayAgain(feature, lastId) {
    return this.#around.idle && lastId === this.#message.id && Boolean(this.#around.options?.features.includes(feature));
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

  /** The buttons go with what they were pressed on, so the focus goes where the next message is written. */
  #clicked({ target }) {
    const { again } = target.closest("[data-again]")?.dataset ?? {};
    if (!again) return;
    if (again === "edit") return this.#around.editLast();
    this.#around.actions.again(again, this.#message.sessionKey, this.#message.id);
    document.querySelector("studio-composer").focusText();
  }
}

/**
 * @typedef {object} Around what a message must know of the conversation around it
 * @property {object} page @property {object} actions @property {object|null} options
 * @property {string|null} lastAnswerId @property {string|null} lastUserId
 * @property {boolean} idle nothing runs and nothing is on its way
 * @property {object|null} notice of something that did not work
 * @property {() => void} editLast opens the editor of the last message
 */

customElements.define("studio-message", StudioMessage);
