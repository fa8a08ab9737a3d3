/**
 * A store: the one place where state changes. It tells its listeners after each change, in the order they subscribed.
 */

/** @template S @param {(state: S, frame: object) => S} reduce @param {S} state */
export function createStore(reduce, state) {
  const listeners = new Set();
  return {
    get state() {
      return state;
    },
    dispatch(frame) {
      const before = state;
      state = reduce(before, frame);
      if (state !== before) for (const listener of listeners) listener(state, before);
    },
    /** @returns the way to stop listening */
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
