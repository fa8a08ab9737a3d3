/**
 * `<studio-composer>`: where the next message is written, who answers it, and where the session is stopped.
 */
import { clone, setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { choiceToSend, kindOf, modelName, modelOf, roleOf } from "#studio/choice";
import { isRunning } from "#studio/conversation";
import { describeNotice } from "#studio/notice";
import { openConversation, openSession } from "#studio/reduce";
import { gettext } from "#studio/text";

class StudioComposer extends StudioElement {
  #wasRunning = false;

  listen() {
    const text = this.find("text");
    text.addEventListener("input", () => this.actions.draft(this.store.state.open, text.value));
    text.addEventListener("keydown", (event) => this.#key(event));
    this.find("form").addEventListener("submit", (event) => this.#submit(event));
    this.find("stop").addEventListener("click", () => this.#stop());
    this.find("notice-close").addEventListener("click", () => this.#closeNotice());
    this.find("model").addEventListener("change", ({ target }) => this.#choose({ model: target.value }));
    this.find("role").addEventListener("change", ({ target }) => this.#choose({ roleId: target.value }));
    document.addEventListener("keydown", (event) => this.#escape(event));
  }

  render(state) {
    const conversation = openConversation(state);
    if (!this.changed(state.open, conversation, state.options, state.chosen, openSession(state))) return;
    const running = isRunning(conversation);
    this.#showText(conversation, running);
    this.#showStop(conversation.stopping, running);
    this.#showNotice(conversation.notice);
    this.#showChoices(state);
    if (this.#wasRunning && !running && !hasFocus()) this.find("text").focus();
    this.#wasRunning = running;
  }

  focusText() {
    this.find("text").focus();
  }

  #showText({ draft, missing }, running) {
    const text = this.find("text");
    if (text.value !== draft) text.value = draft;
    text.disabled = missing;
    this.find("send").disabled = draft.trim() === "" || missing;
    setText(this.find("send-label"), running ? gettext("Queue") : gettext("Send"));
    this.find("keys-idle").hidden = running;
    this.find("keys-running").hidden = !running;
  }

  #showStop(stopping, running) {
    const stop = this.find("stop");
    stop.hidden = !running;
    stop.disabled = stopping !== null && !stopping.unconfirmed;
    setText(this.find("stop-label"), stopWords(stopping));
    this.find("unconfirmed").hidden = !running || !stopping?.unconfirmed;
  }

  #showNotice(notice) {
    this.find("notice").hidden = notice === null;
    if (notice === null) return;
    const { text, detail } = describeNotice(notice);
    setText(this.find("notice-text"), text);
    setText(this.find("notice-detail"), detail);
  }

  #showChoices(state) {
    const { options } = state;
    if (options === null) return;
    const model = modelOf(state);
    const ids = new Set([...options.models.map(({ id }) => id), ...(model ? [model] : [])]);
    offer(this.find("model"), [...ids].map((id) => ({ id, name: modelName(id, options) })), model);
    this.find("demo").hidden = kindOf(model) !== "demo";
    offer(this.find("role"), [{ id: "", name: gettext("No role") }, ...options.roles], roleOf(state));
    this.find("role-choice").hidden = options.roles.length === 0;
  }

  #choose(choice) {
    this.actions.choose(this.store.state.open, choice);
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.find("form").requestSubmit();
  }

  #submit(event) {
    event.preventDefault();
    const { open } = this.store.state;
    const text = this.find("text").value;
    if (text.trim() === "") return;
    const choice = choiceToSend(this.store.state);
    this.dispatchEvent(new CustomEvent("studio-sending", { bubbles: true }));
    this.actions.send(open, text, choice);
  }

  /** The button is disabled by the click, so the focus goes where the next message is written. */
  #stop() {
    this.actions.stop(this.store.state.open);
    this.focusText();
  }

  #escape(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    const stop = this.find("stop");
    if (stop.hidden || stop.disabled || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    this.#stop();
  }

  #closeNotice() {
    this.actions.closeNotice(this.store.state.open);
    this.focusText();
  }
}

function stopWords(stopping) {
  if (stopping === null) return gettext("Stop session");
  return stopping.unconfirmed ? gettext("Stop again") : gettext("Stopping…");
}

function offer(select, choices, chosen) {
  const offered = JSON.stringify(choices.map(({ id, name }) => [id, name]));
  if (select.dataset.offered !== offered) {
    select.dataset.offered = offered;
    select.replaceChildren(...choices.map(({ id, name }) => Object.assign(clone("choice"), { value: id, textContent: name })));
  }
  select.value = chosen ?? "";
}

const hasFocus = () => document.activeElement !== null && document.activeElement !== document.body;

customElements.define("studio-composer", StudioComposer);
