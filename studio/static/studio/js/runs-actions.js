/**
 * What an operator can do on the Runs page, as frames.
 */
import { Orders } from "#studio/orders";

export class RunActions extends Orders {
  #store;
  #connection;

  constructor(store, connection) {
    super(store, connection);
    this.#store = store;
    this.#connection = connection;
  }

  /** After each connect. */
  refresh() {
    this.#connection.request({ type: "studio_chat_options" });
    this.watch();
  }

  /** This page watches as long as it is open, also when its Panic dialog is closed. */
  unwatch() {}

  filter(filter) {
    this.#store.dispatch({ type: "page_filter", ...filter });
  }

  /** @param {string} by @param {boolean} [down] without it, a second time by the same turns the order round */
  sort(by, down) {
    this.#store.dispatch({ type: "page_sort", by, down });
  }

  select(ids, on) {
    this.#store.dispatch({ type: "page_select", ids, on });
  }

  /** A stop names its execution: when it is sent again after a gap, it cannot hit a later one. */
  stop(rows) {
    this.#store.dispatch({ type: "page_stop_asked", ids: rows.map(({ id }) => id) });
    for (const { id, sessionKey } of rows) {
      this.#connection.request({ type: "studio_chat_stop_session", sessionKey, executionId: id }, { keep: true });
    }
  }

  closeBatch() {
    this.#store.dispatch({ type: "page_batch_closed" });
  }

  closeNotice() {
    this.#store.dispatch({ type: "page_notice_closed" });
  }
}
