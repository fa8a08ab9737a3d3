/**
 * `<studio-queue>`: the messages that wait on the server for their turn, and the ways to send one now or to drop it.
 */
import { clone, reconcile, setText, slot } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { openConversation } from "#studio/reduce";
import { gettext } from "#studio/text";

class StudioQueue extends StudioElement {
  listen() {
    this.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (!button) return;
      const { key } = button.closest("[data-key]").dataset;
      if (button.dataset.slot === "send-now") this.actions.sendNow(this.store.state.open, key);
      else this.actions.removeQueued(this.store.state.open, key);
    });
  }

  render(state) {
    const conversation = openConversation(state);
    const queue = conversation?.queue ?? [];
    const waiting = conversation?.active ? conversation.outbox : [];
    const running = Boolean(conversation?.active);
    if (!this.changed(queue, waiting, running)) return;
    this.hidden = queue.length + waiting.length === 0;
    setText(this.find("title"), titleWords(running));
    reconcile(this.find("list"), [...queue, ...waiting], {
      key: ({ id, clientMessageId }) => id ?? clientMessageId,
      create: () => clone("queue-item"),
      update: (item, { id, text }) => {
        setText(slot(item, "text"), text);
        item.classList.toggle("is-sending", !id);
        item.querySelectorAll("button").forEach((button) => (button.disabled = !id));
      },
    });
  }
}

function titleWords(running) {
  if (running) return gettext("Queued: sent in turn when the answer is complete");
  return gettext("Kept in the queue: sent in turn after your next answer, or now");
}

customElements.define("studio-queue", StudioQueue);
