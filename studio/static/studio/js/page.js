/**
 * The studio page: one store, one connection, and the elements that show the one and speak through the other.
 */
import "#studio/elements/announcer";
import "#studio/elements/composer";
import "#studio/elements/connection-state";
import "#studio/elements/holds";
import "#studio/elements/message";
import "#studio/elements/panic";
import "#studio/elements/panic-outcome";
import "#studio/elements/progress";
import "#studio/elements/queue";
import "#studio/elements/session-delete";
import "#studio/elements/session-menu";
import "#studio/elements/sessions";
import "#studio/elements/shortcuts";
import "#studio/elements/sidebar";
import "#studio/elements/thread";
import "#studio/elements/warnings";

import { Actions } from "#studio/actions";
import { Connection } from "#studio/connection";
import { enableCopy } from "#studio/copy";
import { setText } from "#studio/dom";
import { newId } from "#studio/ids";
import { Memory } from "#studio/kept";
import { useMarkdown } from "#studio/prose";
import { initialState, NEW, openConversation, openSession, reduce, unsentDrafts } from "#studio/reduce";
import { Route } from "#studio/route";
import { createStore } from "#studio/store";
import { gettext } from "#studio/text";

const SEEN_KEPT = 500; // sessions whose unread marks are remembered
const page = JSON.parse(document.getElementById("page").textContent);
const memory = new Memory(() => localStorage, page.userKey);
const tabMemory = new Memory(() => sessionStorage, page.userKey);
const seen = memory.load("seen", {});
const usualModel = memory.load("model", null);
const drafts = tabMemory.load("drafts", {});
const store = createStore(reduce, initialState({ sessionKey: page.sessionKey, seen, drafts, usualModel }));
const connection = new Connection({
  open: () => new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/studio/`),
  onFrame: store.dispatch,
  onStatus: connectionChanged,
  onKept: (requests) => tabMemory.save("outgoing", requests),
  onLoggedOut: () => location.assign(`${page.urls.login}?next=${encodeURIComponent(location.pathname)}`),
  newId,
});
const actions = new Actions(store, connection);
const route = new Route(page.urls, (sessionKey) => (sessionKey ? actions.open(sessionKey) : actions.openNew()));

if (page.libraries) await useMarkdown();
if (page.sessionKey === null) actions.draft(actions.openNew(), drafts[NEW] ?? "");
document.querySelectorAll("[data-studio]").forEach((element) => element.attach({ store, actions, page, memory }));
document.addEventListener("studio-sending", () => route.go(store.state.open));
["online", "offline"].forEach((name) => window.addEventListener(name, () => connection.wake()));
window.addEventListener("pageshow", ({ persisted }) => persisted && connection.wake());
document.addEventListener("visibilitychange", () => document.hidden || connection.wake());
enableCopy(document.documentElement);
store.subscribe(changed);
actions.restore(tabMemory.load("outgoing", []));
connection.connect();
document.querySelector("studio-composer").focusText();

function connectionChanged(status) {
  const offline = status.status === "reconnecting" && !navigator.onLine;
  store.dispatch({ type: "page_connection", ...status, ...(offline && { status: "offline" }) });
  if (status.status === "live") actions.refresh();
}

/** What the state asks of the page itself: read again what is stale, name the window, remember. */
function changed(state, before) {
  const { stale, subscribing, fresh } = openConversation(state);
  if (stale && !subscribing && !fresh && state.connection.status === "live") actions.subscribe(state.open);
  const title = openSession(state)?.title || gettext("New session");
  const running = openConversation(state).active !== null;
  setText(document.querySelector("title"), `${running ? "● " : ""}${title} · Studio`);
  setText(document.getElementById("session-title"), title);
  if (state.seen !== before.seen) memory.save("seen", Object.fromEntries(Object.entries(state.seen).slice(-SEEN_KEPT)));
  memory.save("model", state.usualModel);
  tabMemory.save("drafts", unsentDrafts(state));
}
