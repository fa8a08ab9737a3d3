/**
 * `<studio-composer>`: where the next message is written, who answers it, and where the session is stopped.
 */
import { excessBytes } from "#studio/actions";
import { clone, setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { choiceToSend, fixedModelOf, kindOf, modelName, modelOf, roleOf, rolesOf } from "#studio/choice";
import { isRunning } from "#studio/conversation";
import { number } from "#studio/format";
import { enterOf, isMac } from "#studio/keys";
import { describeNotice } from "#studio/notice";
import { openConversation, openSession } from "#studio/reduce";
import { fill, gettext } from "#studio/text";

const KIB = 1024;
const GROWS_BY_ITSELF = CSS.supports("field-sizing", "content");

class StudioComposer extends StudioElement {
  #wasRunning = false;

  listen() {
    const text = this.find("text");
    text.addEventListener("input", () => this.actions.draft(this.store.state.open, text.value));
    text.addEventListener("keydown", (event) => this.#key(event));
    this.find("form").addEventListener("submit", (event) => this.#submit(event));
    this.find("stop").addEventListener("click", () => this.stop());
    this.find("notice-close").addEventListener("click", () => this.#closeNotice());
    this.find("model").addEventListener("change", ({ target }) => this.#choose({ model: target.value }));
    this.find("role").addEventListener("change", ({ target }) => this.#choose({ roleId: target.value }));
  }

  render(state) {
    const conversation = openConversation(state);
    const { status } = state.connection;
    if (!this.changed(state.open, conversation, state.options, state.chosen, openSession(state), status)) return;
    const running = isRunning(conversation);
    this.#showText(conversation, running, excessBytes(conversation.draft, state.options));
    this.#showStop(conversation.stopping, running, status);
    this.#showNotice(conversation.notice);
    this.#showChoices(state);
    if (this.#wasRunning && !running && !hasFocus()) this.find("text").focus();
    this.#wasRunning = running;
  }

  focusText() {
    this.find("text").focus();
  }

  /** @returns {boolean|void} false where there is nothing to stop. The button goes, so the focus goes to the next message */
  stop() {
    const { hidden, disabled } = this.find("stop");
    if (hidden || disabled) return !hidden;
    this.actions.stop(this.store.state.open);
    this.focusText();
  }

  #showText({ draft, missing }, running, excess) {
    const text = this.find("text");
    if (text.value !== draft) text.value = draft;
    if (!GROWS_BY_ITSELF) grow(text);
    text.disabled = missing;
    text.ariaInvalid = excess > 0 ? "true" : null;
    setText(this.find("limit"), excess > 0 ? excessWords(excess) : "");
    this.find("send").disabled = draft.trim() === "" || missing || excess > 0;
    setText(this.find("send-label"), running ? gettext("Queue") : gettext("Send"));
    this.find("keys-idle").hidden = running;
    this.find("keys-running").hidden = !running;
  }

  #showStop(stopping, running, connection) {
    const stop = this.find("stop");
    stop.hidden = !running;
    stop.disabled = stopping !== null && !stopping.unconfirmed;
    setText(this.find("stop-label"), stopWords(stopping, connection));
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
    const fixed = fixedModelOf(state);
    const ids = new Set([...options.models.map(({ id }) => id), ...(model ? [model] : [])]);
    offer(this.find("model"), [...ids].map((id) => ({ id, name: modelName(id, options) })), model);
    this.find("model").disabled = fixed !== "";
    this.find("model").title = fixed && gettext("The role has a model of its own");
    this.find("demo").hidden = kindOf(model) !== "demo";
    offer(this.find("role"), rolesOf(state), roleOf(state));
    this.find("role-choice").hidden = options.roles.length === 0;
  }

  #choose(choice) {
    this.actions.choose(this.store.state.open, choice);
  }

  #key(event) {
    const enter = enterOf(event, { mac: isMac(navigator.platform) });
    if (enter === null || enter === "break") return;
    event.preventDefault();
    this.#send(enter === "now" ? { whenBusy: "interrupt" } : {});
  }

  #submit(event) {
    event.preventDefault();
    this.#send({});
  }

  #send(how) {
    const { open } = this.store.state;
    const text = this.find("text").value;
    if (this.find("send").disabled) return;
    const choice = choiceToSend(this.store.state);
    this.dispatchEvent(new CustomEvent("studio-sending", { bubbles: true }));
    this.actions.send(open, text, { ...choice, ...how });
  }

  #closeNotice() {
    this.actions.closeNotice(this.store.state.open);
    this.focusText();
  }
}

function excessWords(excess) {
  const kib = number(Math.ceil(excess / KIB));
  return fill(gettext("%(n)s KiB too long to be sent. Shorten it, or send it in parts."), { n: kib });
}

function stopWords(stopping, connection) {
  if (stopping === null) return gettext("Stop session");
  if (connection !== "live") return gettext("Waits for the connection");
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

/** Its style sheet sets the limit. */
function grow(text) {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}

const hasFocus = () => document.activeElement !== null && document.activeElement !== document.body;

customElements.define("studio-composer", StudioComposer);
