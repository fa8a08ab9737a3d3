/**
 * `<studio-sessions>`: the reader's sessions, latest first, with what is running, queued and unread; a search in them. More
 * of them come as the reader scrolls or walks down by keyboard.
 */
import { clone, reconcile, setText, slot, write } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { moment, number } from "#studio/format";
import { describeNotice } from "#studio/notice";
import { isUnread } from "#studio/reduce";
import { fill, gettext, ngettext } from "#studio/text";

const SEARCH_AFTER_MS = 250;
const NEAR_END_PX = 240;
const STEPS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

class StudioSessions extends StudioElement {
  #timer = null;
  #renaming = null;

  listen() {
    this.find("scroll").addEventListener("scroll", () => this.#wantMore());
    this.find("list").addEventListener("keydown", (event) => this.#key(event));
    this.find("list").addEventListener("submit", (event) => this.#rename(event));
    this.find("list").addEventListener("focusout", (event) => this.#left(event));
    document.addEventListener("pointerdown", ({ target }) => this.#pressed(target));
    this.find("search").addEventListener("input", () => this.#searchSoon());
    this.find("search").addEventListener("keydown", (event) => this.#searchKey(event));
    this.find("notice-close").addEventListener("click", () => this.actions.closeListNotice());
    this.find("more").addEventListener("click", () => this.actions.listMore());
  }

  render(state) {
    const { sessions, search, listing, listNotice, open, seen, connection } = state;
    const active = state.conversations[open]?.active;
    if (!this.changed(sessions, search, listing, listNotice, open, seen, active, connection.status)) return;
    reconcile(this.find("list"), shownOf(state) ?? [], {
      key: ({ key }) => key,
      create: () => clone("session-item"),
      update: (item, session) => this.#update(item, session, state),
    });
    this.#showStates(state);
    this.#showNotice(listNotice);
    this.#wantMore();
  }

  /** Give the session with this key another title, in its place. */
  startRename(key) {
    const item = this.#itemOf(key);
    if (!item) return;
    this.#endRename();
    this.#renaming = key;
    const title = slot(item, "new-title");
    title.value = slot(item, "title").textContent;
    this.#showForm(item, true);
    title.select();
    title.focus();
  }

  /** Where the focus goes when `key` goes: to the session after it, else the one before; undefined if it is alone. */
  neighbourOf(key) {
    const item = this.#itemOf(key);
    return (item?.nextElementSibling ?? item?.previousElementSibling)?.dataset.key;
  }

  focusOn(key) {
    const item = this.#itemOf(key);
    if (item) slot(item, "link").focus();
    else this.find("search").focus();
  }

  #update(item, session, state) {
    const current = session.key === state.open;
    const running = current ? state.conversations[session.key].active !== null : session.state === "running";
    const unread = isUnread(state, session) && !running;
    const title = session.title || gettext("New session");
    const link = slot(item, "link");
    link.title = `${title}\n${moment(session.updatedAt)}`; // a long one is cut, and several may be alike
    link.href = this.page.urls.session.replace("KEY", session.key);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    item.dataset.state = running ? "running" : unread ? "unread" : "idle";
    write(item, {
      title,
      state: running ? gettext("running") : unread ? gettext("unread") : "",
      count: session.queueLength ? number(session.queueLength) : "",
      queued: session.queueLength ? queuedWords(session.queueLength) : "",
      excerpt: session.excerpt ?? "",
    });
    slot(item, "options").setAttribute("aria-label", fill(gettext("Options for “%(title)s”"), { title }));
  }

  #showStates({ sessions, search, listing }) {
    const shown = search ? search.sessions : sessions;
    const { done, loading } = search ?? listing;
    const none = shown?.length === 0 && !loading;
    this.find("empty").hidden = !none || search !== null;
    this.find("found").hidden = search === null;
    setText(this.find("found"), search && !loading && shown ? foundWords(shown.length, done) : "");
    this.find("more").hidden = done || !shown?.length;
  }

  #showNotice(notice) {
    this.find("notice").hidden = notice === null;
    if (notice === null) return;
    const { text, detail } = describeNotice(notice);
    setText(this.find("notice-text"), [text, detail].filter(Boolean).join(" "));
  }

  /** A page ahead of the reader, while there is a connection to ask on. */
  #wantMore() {
    const { search, listing, connection } = this.store.state;
    const { done, loading } = search ?? listing;
    const { scrollHeight, scrollTop, clientHeight } = this.find("scroll");
    if (done || loading || connection.status !== "live" || !shownOf(this.store.state)?.length) return;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.actions.listMore();
  }

  #searchSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.actions.search(this.find("search").value.trim()), SEARCH_AFTER_MS);
  }

  /** Esc gives the search up, once; it neither closes the drawer nor stops the session then. */
  #searchKey(event) {
    const { value } = this.find("search");
    if (event.key === "ArrowDown") {
      event.preventDefault();
      this.querySelector("[data-slot=link]")?.focus();
    } else if (event.key === "Escape" && value !== "") {
      event.preventDefault();
      this.find("search").value = "";
      this.#searchSoon();
    }
  }

  #key(event) {
    const { key } = event.target.closest("[data-key]").dataset;
    if (event.target.matches("input")) return this.#titleKey(event, key);
    if (event.key === "F2") this.startRename(key);
    else if (event.key === "Delete") document.querySelector("studio-session-delete").ask(key);
    else if (event.key in STEPS) this.#step(key, STEPS[event.key]);
    else return;
    event.preventDefault();
  }

  #step(key, by) {
    const items = [...this.find("list").children];
    const at = items.findIndex((item) => item.dataset.key === key) + by;
    slot(items[Math.max(0, Math.min(items.length - 1, at))], "link").focus();
    this.#wantMore();
  }

  #titleKey(event, key) {
    if (event.key !== "Escape") return;
    event.preventDefault(); // or it would stop the session
    this.#endRename();
    this.focusOn(key);
  }

  #rename(event) {
    event.preventDefault();
    const key = this.#renaming;
    this.#saveTitle(event.target);
    this.focusOn(key);
  }

  /** Whoever turns to something else has named it. A list that sorts itself takes the focus away too, and says nothing. */
  #left({ target, relatedTarget }) {
    const form = target.closest("form");
    if (form && this.#renaming && relatedTarget && !form.contains(relatedTarget)) this.#saveTitle(form);
  }

  #pressed(target) {
    const item = this.#renaming && this.#itemOf(this.#renaming);
    if (item && !item.contains(target)) this.#saveTitle(slot(item, "rename"));
  }

  #saveTitle(form) {
    const key = this.#renaming;
    const title = slot(form, "new-title").value.trim();
    const before = slot(this.#itemOf(key), "title").textContent;
    this.#endRename();
    if (title && title !== before) this.actions.rename(key, title);
  }

  #endRename() {
    const item = this.#renaming && this.#itemOf(this.#renaming);
    this.#renaming = null;
    if (item) this.#showForm(item, false);
  }

  #showForm(item, shown) {
    slot(item, "rename").hidden = !shown;
    slot(item, "link").hidden = shown;
    slot(item, "options").hidden = shown;
  }

  #itemOf(key) {
    return [...this.find("list").children].find((item) => item.dataset.key === key);
  }
}

const shownOf = ({ search, sessions }) => (search ? search.sessions : sessions);

const queuedWords = (length) => fill(ngettext("%(n)s queued", "%(n)s queued", length), { n: number(length) });

function foundWords(length, done) {
  if (length === 0) return gettext("Nothing was found.");
  const words = fill(ngettext("%(n)s session found", "%(n)s sessions found", length), { n: number(length) });
  return done ? words : `${words}+`;
}

customElements.define("studio-sessions", StudioSessions);
