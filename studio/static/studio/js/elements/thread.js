/**
 * `<studio-thread>`: the open conversation, oldest first. It stays at its end while the reader is there, and never moves
 * under a reader who has scrolled away. Older pages come as the reader nears the beginning; those that were read are let go
 * when the reader is back at the end, so that what is on the page stays bounded however long the conversation.
 */
import { kindOf, modelOf } from "#studio/choice";
import { fates, isRunning, KEPT_MESSAGES } from "#studio/conversation";
import { clone, reconcile, setText, slot } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { number } from "#studio/format";
import { openConversation } from "#studio/reduce";
import { fill, gettext, ngettext } from "#studio/text";

const NEAR_END_PX = 64;
const NEAR_BEGINNING_PX = 600;

class StudioThread extends StudioElement {
  #pinned = true;
  #top = 0;
  #around = null;
  #lastSeenId = null; // the last message when the reader left the end
  #shown = { open: null, waiting: 0, firstId: null };

  listen() {
    this.addEventListener("scroll", () => this.#scrolled());
    new ResizeObserver(() => this.#follow()).observe(this.find("content"));
    new ResizeObserver(() => this.#follow()).observe(this);
    this.find("older").addEventListener("click", () => this.#loadOlder());
    this.find("demo-commands").addEventListener("click", ({ target }) => this.#fillComposer(target));
    this.find("jump").addEventListener("click", () => this.#jump());
    this.find("messages").addEventListener("click", ({ target }) => target.closest("[data-follow]") && this.#jump());
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
    this.#showJump(conversation);
    if (!this.#pinned && before.firstId !== this.#shown.firstId) this.scrollTop = this.scrollHeight - fromEnd;
    this.#follow();
    this.#letGo();
  }

  #showStates(conversation) {
    const { loaded, missing, messages, outbox, hasOlder, loadingOlder } = conversation;
    this.find("loading").hidden = loaded;
    this.find("missing").hidden = !missing;
    this.find("welcome").hidden = !loaded || missing || messages.length + outbox.length > 0;
    this.find("older").hidden = !hasOlder;
    this.find("older").setAttribute("aria-busy", String(loadingOlder)); // disabled it would lose the focus
  }

  #showMessages(conversation, { options, connection }) {
    const { messages, outbox, active } = conversation;
    const around = this.#aroundNow(conversation, options);
    const became = fates(messages);
    const waiting = active ? [] : outbox.map(({ clientMessageId, text }) => ({ id: clientMessageId, role: "sending", text }));
    const hadFocus = this.find("messages").contains(document.activeElement);
    reconcile(this.find("messages"), [...messages, ...waiting], {
      key: ({ id }) => (became.get(id) === "replaced" ? `replaced-${id}` : id),
      create: ({ id, role }) => (became.get(id) === "replaced" ? folded(role) : clone(`message-${role}`)),
      update: (element, message) =>
        message.role === "sending"
          ? showSending(element, message, connection)
          : messageOf(element).show(message, around, became.get(message.id)),
    });
    if (hadFocus && document.activeElement === document.body) this.#goOn();
  }

  /** What had the focus has been replaced: it was sent again, and what follows is at the end. */
  #goOn() {
    document.querySelector("studio-composer").focusText();
    this.#pin(true);
  }

  /** One object while nothing in it changes, so that a message can tell by identity. */
  #aroundNow(conversation, options) {
    const { messages, notice } = conversation;
    const lastOf = (wanted) => messages.findLast(({ role }) => role === wanted)?.id ?? null;
    const now = {
      options, notice, idle: !isRunning(conversation), lastAnswerId: lastOf("assistant"), lastUserId: lastOf("user"),
    };
    if (Object.entries(now).some(([name, value]) => this.#around?.[name] !== value)) {
      const editLast = () => this.#messageOf(now.lastUserId)?.edit();
      this.#around = { ...now, page: this.page, actions: this.actions, editLast };
    }
    return this.#around;
  }

  #messageOf(id) {
    return [...this.find("messages").children].find((element) => element.dataset.key === id);
  }

  /** Only a move upwards is the reader's; a thread that shrinks or grows under its end says nothing. */
  #scrolled() {
    const nearEnd = this.scrollHeight - this.scrollTop - this.clientHeight < NEAR_END_PX;
    const upwards = this.scrollTop < this.#top;
    if (nearEnd) this.#pin(true);
    else if (upwards) this.#pin(false);
    this.#top = this.scrollTop;
    this.#letGo();
    if (upwards && !this.#pinned && this.scrollTop < NEAR_BEGINNING_PX) this.#loadOlder();
  }

  /** At the end, what is far from it is not needed on the page. */
  #letGo() {
    const { open, conversations } = this.store.state;
    if (this.#pinned && conversations[open].messages.length > KEPT_MESSAGES) this.actions.forgetOlder(open);
  }

  #pin(pinned) {
    if (this.#pinned && !pinned) this.#lastSeenId = openConversation(this.store.state).messages.at(-1)?.id ?? null;
    this.#pinned = pinned;
    this.#showJump(openConversation(this.store.state));
  }

  /** The way back to the end says how many messages have come there meanwhile. */
  #showJump({ messages }) {
    const jump = this.find("jump");
    jump.hidden = this.#pinned;
    if (this.#pinned) return;
    const news = messages.length - 1 - messages.findLastIndex(({ id }) => id === this.#lastSeenId);
    setText(this.find("jump-count"), news ? number(news) : "");
    jump.setAttribute("aria-label", jumpWords(news));
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
    this.#letGo();
  }

  /** The reader keeps the place (`fromEnd`): what is new above does not push down what is being read. */
  #loadOlder() {
    const { open, conversations } = this.store.state;
    const { hasOlder, loadingOlder, messages } = conversations[open];
    if (!hasOlder || loadingOlder) return;
    this.#pin(false);
    this.actions.loadOlder(open, messages[0].id);
  }
}

/** A replaced row lies folded where it was, above what replaces it. */
function folded(role) {
  const fold = clone(`replaced-${role}`);
  slot(fold, "message").replaceWith(clone(`message-${role}`));
  return fold;
}

const messageOf = (element) => (element.matches("studio-message") ? element : element.querySelector("studio-message"));

function jumpWords(news) {
  if (news === 0) return gettext("Go to the end");
  return fill(ngettext("Go to the end: %(n)s new message", "Go to the end: %(n)s new messages", news), { n: number(news) });
}

function showSending(element, { text }, { status }) {
  setText(slot(element, "text"), text);
  setText(slot(element, "state"), status === "live" ? gettext("Sending…") : gettext("Waits for the connection"));
}

customElements.define("studio-thread", StudioThread);
