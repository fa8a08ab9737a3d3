/**
 * `<studio-queue>`: the messages that wait on the server for their turn; each can be moved, edited, sent now or dropped.
 */
import { modelOf } from "#studio/choice";
import { clone, reconcile, setText, slot } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { moment, waited } from "#studio/format";
import { holdsOf } from "#studio/hold-words";
import { enableMoving, isDragged } from "#studio/queue-move";
import { QueueEditor } from "#studio/queue-editor";
import { openConversation } from "#studio/reduce";
import { queueTitle, sendNowWords, stateOf } from "#studio/queue-words";
import { fill, gettext } from "#studio/text";
import { shownQueue } from "#studio/waiting";

const TICK_MS = 1000;

class StudioQueue extends StudioElement {
  #editor = null;
  #timer = null;
  #count = 0;

  listen() {
    this.#editor = new QueueEditor(this.actions, (queueId) => this.#item(queueId));
    this.addEventListener("click", (event) => this.#click(event));
    enableMoving(this.find("list"), {
      move: (queueId, position) => this.#move(queueId, position),
      dropped: () => this.render(this.store.state),
    });
  }

  render(state) {
    const conversation = openConversation(state);
    const { queue, asked, outbox, active } = conversation;
    const { status } = state.connection;
    const shown = shownQueue(conversation);
    const title = queueTitle(conversation, shown.length, holdsOf(modelOf(state), state.holds));
    if (isDragged(this) || !this.changed(state.open, queue, asked, outbox, active === null, title, status)) return;
    this.#editor.follow(state, shown);
    if (state !== this.store.state) return; // what it saved has been shown already
    this.hidden = shown.length === 0;
    setText(this.find("title"), title);
    const focus = focusIn(this.find("list"));
    reconcile(this.find("list"), shown, {
      key: ({ id, clientMessageId }) => id ?? clientMessageId,
      create: () => clone("queue-item"),
      update: (element, item) => this.#update(element, item, active !== null, status),
    });
    focus?.restore();
    this.#tick(shown.length > 0);
    if (shown.length > this.#count) setText(this.find("said"), title);
    this.#count = shown.length;
  }

  #update(element, { id, text, createdAt, editing, asked }, isRunning, connection) {
    setText(slot(element, "text"), text);
    element.classList.toggle("is-asked", asked !== null);
    element.querySelectorAll(".queue-actions button, .queue-grip").forEach((button) => (button.disabled = id === null));
    slot(element, "send-now").disabled = id === null || asked === "studio_chat_send_now";
    slot(element, "send-now").title = sendNowWords(isRunning);
    slot(element, "clock").hidden = createdAt === undefined;
    if (createdAt !== undefined) {
      slot(element, "clock").title = fill(gettext("Waits since %(time)s"), { time: moment(createdAt) });
      slot(element, "waited").dateTime = new Date(createdAt).toISOString();
    }
    setText(slot(element, "state"), stateOf({ asked, editing: editing && !this.#editor.holds(id) }, connection));
  }

  /** The second click of a double click would meet the item that has moved up. */
  #click({ target, detail }) {
    const button = target.closest("button");
    const action = CLICKS[button?.dataset.slot];
    if (!action || detail > 1) return;
    const { key } = button.closest("[data-key]").dataset;
    if (button.dataset.slot === "edit") this.#editor.open(this.store.state.open, key);
    else this.actions[action](this.store.state.open, key);
  }

  #move(queueId, position) {
    const { open } = this.store.state;
    const count = this.find("list").children.length;
    this.actions.moveQueued(open, queueId, position);
    setText(this.find("said"), fill(gettext("Moved to position %(n)s of %(m)s"), { n: position + 1, m: count }));
  }

  #item(queueId) {
    return this.find("list").querySelector(`[data-key="${queueId}"]`);
  }

  /** The clocks go while there is something to wait for. */
  #tick(needed) {
    this.#showClocks();
    if (needed) this.#timer ??= setInterval(() => this.#showClocks(), TICK_MS);
    else this.#timer = clearInterval(this.#timer) ?? null;
  }

  #showClocks() {
    for (const time of this.querySelectorAll("time[datetime]")) setText(time, waited(Date.now() - new Date(time.dateTime)));
  }
}

const CLICKS = { "send-now": "sendNow", remove: "removeQueued", edit: "edit" };

/** An element that is moved or removed loses the focus: it gets it back, or the item beside does, or the composer. */
function focusIn(list) {
  const had = document.activeElement;
  const item = had?.closest("[data-key]");
  if (!list.contains(had) || !item) return null;
  const { slot: name } = had.dataset;
  const beside = item.nextElementSibling ?? item.previousElementSibling;
  return {
    restore() {
      if (document.activeElement === had) return;
      if (list.contains(had)) return had.focus();
      const canGoOn = name !== "send-now" && beside && list.contains(beside);
      if (canGoOn) slot(beside, "grip").focus();
      else document.querySelector("studio-composer").focusText();
    },
  };
}

customElements.define("studio-queue", StudioQueue);
