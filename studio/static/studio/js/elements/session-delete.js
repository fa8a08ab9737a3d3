/**
 * `<studio-session-delete>`: asks once more before a session is deleted, and says what goes with it. The focus then goes to
 * the next session; after the open one, to the message of a new session.
 */
import { setText } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { fill, gettext } from "#studio/text";

class StudioSessionDelete extends StudioElement {
  #key = null;
  #going = new Map(); // key → where the focus goes once it is gone

  listen() {
    this.find("form").addEventListener("submit", () => this.#confirmed());
    this.find("give-up").addEventListener("click", () => this.find("dialog").close());
    this.find("dialog").addEventListener("close", () => this.#list.focusOn(this.#key));
  }

  ask(key) {
    const session = this.#sessionOf(key);
    if (!session) return;
    this.#key = key;
    setText(this.find("title"), fill(gettext("Delete “%(title)s”?"), { title: session.title || gettext("New session") }));
    this.find("running").hidden = session.state !== "running";
    this.find("dialog").showModal();
    this.find("give-up").focus();
  }

  render(state) {
    for (const [key, next] of this.#going) {
      if (state.listNotice?.sessionKey === key) this.#going.delete(key);
      else if (!this.#sessionOf(key)) this.#gone(key, next, state);
    }
  }

  get #list() {
    return document.querySelector("studio-sessions");
  }

  #confirmed() {
    this.#going.set(this.#key, this.#list.neighbourOf(this.#key));
    this.actions.remove(this.#key);
  }

  /** The focus follows only if it was in the list; a reader who went on writing is not torn away. */
  #gone(key, next, { open }) {
    this.#going.delete(key);
    if (key === open) document.querySelector(".new-session").click();
    else if (document.activeElement === document.body || this.#list.contains(document.activeElement)) this.#list.focusOn(next);
  }

  #sessionOf(key) {
    const { sessions, search } = this.store.state;
    return [...(sessions ?? []), ...(search?.sessions ?? [])].find((session) => session.key === key);
  }
}

customElements.define("studio-session-delete", StudioSessionDelete);
