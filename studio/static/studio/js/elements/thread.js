/**
 * `<studio-thread>`: the open conversation, oldest first. It stays at its end while the reader is there, and never moves
 * under a reader who has scrolled away.
 */
import { kindOf, modelOf } from "#studio/choice";
import { fates } from "#studio/conversation";
import { clone, reconcile, setText, slot } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { openConversation } from "#studio/reduce";
import { gettext } from "#studio/text";

const NEAR_END_PX = 64;

class StudioThread extends StudioElement {
  #pinned = true;
  #top = 0;
  #around = null;
  #shown = { open: null, waiting: 0, firstId: null };

  listen() {
    this.addEventListener("scroll", () => this.#scrolled());
    new ResizeObserver(() => this.#follow()).observe(this.find("content"));
    new ResizeObserver(() => this.#follow()).observe(this);
    this.find("older").addEventListener("click", () => this.#loadOlder());
    this.find("demo-commands").addEventListener("click", ({ target }) => this.#fillComposer(target));
    this.find("jump").addEventListener("click", () => this.#jump());
    this.find("messages").addEventListener("click", ({ target }) => target.closest("[data-again]") && this.#jump());
  }

  render(state) {
    const conversation = openConversation(state);
    if (!this.changed(state.open, conversation, state.connection.status, state.options, state.chosen)) return;
    const before = this.#shown;
    const fromEnd = this.scrollHeight - this.scrollTop;
    this.#shown = { open: state.open, waiting: conversation.outbox.length, firstId: conversation.messages[0]?.id };
    if (before.open !== state.open || before.waiting < this.#shown.waiting) this.#pin(true);
    this.#showStates(conversation);
    this.find("demo-commands").hidden = kindOf(modelOf(state)) !== "demo";
    this.#showMessages(conversation, state);
    if (!this.#pinned && before.firstId !== this.#shown.firstId) this.scrollTop = this.scrollHeight - fromEnd;
    this.#follow();
  }

  #showStates(conversation) {
    const { loaded, missing, messages, outbox, hasOlder } = conversation;
    this.find("loading").hidden = loaded;
    this.find("missing").hidden = !missing;
    this.find("welcome").hidden = !loaded || missing || messages.length + outbox.length > 0;
    this.find("older").hidden = !hasOlder;
  }

  #showMessages({ messages, outbox, active }, { options, connection }) {
    const around = this.#aroundNow(options, messages.at(-1)?.id ?? null);
    const became = fates(messages);
    const waiting = active ? [] : outbox.map(({ clientMessageId, text }) => ({ id: clientMessageId, role: "sending", text }));
    reconcile(this.find("messages"), [...messages, ...waiting], {
      key: ({ id }) => (became.get(id) === "replaced" ? `replaced-${id}` : id),
      create: ({ id, role }) => (became.get(id) === "replaced" ? folded(role) : clone(`message-${role}`)),
      update: (element, message) =>
        message.role === "sending"
          ? showSending(element, message, connection)
          : messageOf(element).show(message, around, became.get(message.id)),
    });
  }

  /** One object while nothing in it changes, so that a message can tell by identity. */
  #aroundNow(options, latestId) {
    if (this.#around?.options !== options || this.#around.latestId !== latestId) {
      this.#around = { page: this.page, actions: this.actions, options, latestId };
    }
    return this.#around;
  }

  /** Only a move upwards is the reader's; a thread that shrinks or grows under its end says nothing. */
  #scrolled() {
    const nearEnd = this.scrollHeight - this.scrollTop - this.clientHeight < NEAR_END_PX;
    if (nearEnd) this.#pin(true);
    else if (this.scrollTop < this.#top) this.#pin(false);
    this.#top = this.scrollTop;
  }

  #pin(pinned) {
    this.#pinned = pinned;
    this.find("jump").hidden = pinned;
  }

  /** Where it put the thread is remembered, so that its own move is not taken for the reader's. */
  #follow() {
    if (!this.#pinned) return;
    this.scrollTop = this.scrollHeight;
    this.#top = this.scrollTop;
  }

  #fillComposer(target) {
    const { command } = target.closest("[data-command]")?.dataset ?? {};
    if (!command) return;
    this.actions.draft(this.store.state.open, command);
    document.querySelector("studio-composer").focusText();
  }

  #jump() {
    this.#pin(true);
    this.#follow();
  }

  /** The reader keeps the place (`fromEnd`): what is new above does not push down what is being read. */
  #loadOlder() {
    const { open, conversations } = this.store.state;
    this.#pin(false);
    this.actions.loadOlder(open, conversations[open].messages[0].id);
  }
}

/** A replaced row lies folded where it was, above what replaces it. */
function folded(role) {
  const fold = clone(`replaced-${role}`);
  slot(fold, "message").replaceWith(clone(`message-${role}`));
  return fold;
}

const messageOf = (element) => (element.matches("studio-message") ? element : element.querySelector("studio-message"));

function showSending(element, { text }, { status }) {
  setText(slot(element, "text"), text);
  setText(slot(element, "state"), status === "live" ? gettext("Sending…") : gettext("Waits for the connection"));
}

customElements.define("studio-thread", StudioThread);
