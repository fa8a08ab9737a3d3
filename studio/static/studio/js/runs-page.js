/**
 * The Runs page: its own store and connection, and the elements that it shares with the studio.
 */
import "#studio/elements/connection-state";
import "#studio/elements/holds";
import "#studio/elements/panic";
import "#studio/elements/panic-outcome";
import "#studio/elements/runs-filters";
import "#studio/elements/runs-stop";
import "#studio/elements/runs-table";
import "#studio/elements/runs-totals";

import { Connection } from "#studio/connection";
import { newId } from "#studio/ids";
import { ALL, initialRuns, reduceRuns } from "#studio/runs";
import { RunActions } from "#studio/runs-actions";
import { createStore } from "#studio/store";

const page = JSON.parse(document.getElementById("page").textContent);
const asked = [...new URLSearchParams(location.search)].filter(([name]) => name in ALL);
const store = createStore(reduceRuns, initialRuns({ filters: Object.fromEntries(asked) }));
const connection = new Connection({
  open: () => new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/studio/`),
  onFrame: (frame) => store.dispatch({ ...frame, heardAt: Date.now() }),
  onStatus: connectionChanged,
  onLoggedOut: () => location.assign(`${page.urls.login}?next=${encodeURIComponent(location.pathname)}`),
  newId,
});
const actions = new RunActions(store, connection);

document.querySelectorAll("[data-studio]").forEach((element) => element.attach({ store, actions, page }));
window.addEventListener("online", () => connection.connect());
window.addEventListener("offline", () => connectionChanged(store.state.connection));
connection.connect();

function connectionChanged(status) {
  const offline = status.status === "reconnecting" && !navigator.onLine;
  store.dispatch({ type: "page_connection", ...status, ...(offline && { status: "offline" }) });
  if (status.status === "live") actions.refresh();
}
