/**
 * `<studio-sessions>`: the reader's sessions, latest first, with what is running and what is unread.
 */
import { clone, reconcile, setText, slot } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { isUnread } from "#studio/reduce";
import { gettext } from "#studio/text";

class StudioSessions extends StudioElement {
  render(state) {
    if (!this.changed(state.sessions, state.open, state.seen, state.conversations[state.open]?.active)) return;
    const sessions = state.sessions ?? [];
    this.find("empty").hidden = state.sessions === null || sessions.length > 0;
    reconcile(this.find("list"), sessions, {
      key: ({ key }) => key,
      create: () => clone("session-item"),
      update: (item, session) => this.#update(item, session, state),
    });
  }

  #update(item, session, state) {
    const link = slot(item, "link");
    const current = session.key === state.open;
    const running = current ? state.conversations[session.key].active !== null : session.state === "running";
    const unread = isUnread(state, session) && !running;
    link.href = this.page.urls.session.replace("KEY", session.key);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    setText(slot(item, "title"), session.title || gettext("New session"));
    item.dataset.state = running ? "running" : unread ? "unread" : "idle";
    setText(slot(item, "state"), running ? gettext("running") : unread ? gettext("unread") : "");
  }
}

customElements.define("studio-sessions", StudioSessions);
