/**
 * `<studio-panic>`: one button that stops everything on every worker, behind one question. Only for those who may.
 */
import { StudioElement } from "#studio/elements/studio-element";

class StudioPanic extends StudioElement {
  listen() {
    const dialog = this.find("dialog");
    this.find("open").addEventListener("click", () => this.#ask(dialog));
    this.find("cancel").addEventListener("click", () => dialog.close());
    this.find("form").addEventListener("submit", (event) => this.#confirm(event, dialog));
  }

  render({ options, panic }) {
    if (!this.changed(options, panic)) return;
    this.find("open").hidden = !options?.permissions.panic;
    this.find("open").disabled = panic.asked;
  }

  #ask(dialog) {
    this.find("form").reset();
    dialog.showModal();
    this.find("confirm").focus();
  }

  #confirm(event, dialog) {
    event.preventDefault();
    const reason = this.find("reason").value.trim();
    const hold = this.find("hold").checked;
    dialog.close();
    this.actions.panic({ ...(reason && { reason }), ...(hold && { hold }) });
  }
}

customElements.define("studio-panic", StudioPanic);
