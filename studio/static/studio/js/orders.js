/**
 * What operators order, from whichever page they are on: panic, release, and to be told what runs everywhere.
 */
export class Orders {
  #store;
  #connection;

  constructor(store, connection) {
    this.#store = store;
    this.#connection = connection;
  }

  /** @param {{reason?: string, hold?: boolean, scope?: {user?: string, model?: string}}} how */
  panic(how) {
    this.#store.dispatch({ type: "page_panic_asked" });
    this.#connection.request({ type: "studio_chat_panic", ...how });
  }

  closePanic() {
    this.#store.dispatch({ type: "page_panic_closed" });
  }

  release(holdId) {
    this.#connection.request({ type: "studio_chat_release", holdId });
  }

  /** Ask to be told what runs; the first answer is the whole of it. */
  watch() {
    this.#connection.request({ type: "studio_chat_executions_subscribe" });
  }

  unwatch() {
    this.#connection.request({ type: "studio_chat_executions_unsubscribe" });
    this.#store.dispatch({ type: "page_unwatched" });
  }

  reconnect() {
    this.#connection.connect();
  }
}
