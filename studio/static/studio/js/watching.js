/**
 * What operators are told: what a panic did, and what runs, waits and is held everywhere. Pure; part of the reducers of
 * both pages.
 *
 * `state.live` is the server's latest word, or null while nothing is watched.
 */

export const initialWatch = () => ({ panic: { asked: false, reply: null }, live: null });

export const WATCHING = {
  page_panic_asked: (state) => ({ ...state, panic: { asked: true, reply: null } }),
  page_panic_closed: (state) => ({ ...state, panic: { asked: false, reply: null } }),
  page_unwatched: (state) => ({ ...state, live: null }),
  studio_chat_panic_ok: (state, reply) => ({ ...state, panic: { asked: false, reply } }),
  studio_chat_executions_subscribe_ok: (state, reply) => (reply.ok ? watched(state, reply) : state),
  studio_chat_executions: watched,
};

function watched(state, { executions, ended = [], groups = [], holds = [] }) {
  return { ...state, live: { executions, ended, groups, holds } };
}

/**
 * What a panic of this scope would stop and keep waiting, now.
 * @param {{user?: string, model?: string}} scope empty: everything
 * @returns {{runs: number, people: number, waiting: number}}
 */
export function hitBy(live, { user, model } = {}) {
  const hit = live.groups.filter((group) => (!user || group.user === user) && (!model || group.model === model));
  const people = new Set(hit.filter((group) => group.live > 0 && group.user !== null).map((group) => group.user));
  return { runs: sum(hit, "live"), people: people.size, waiting: sum(hit, "waiting") };
}

/** @returns {{runs: number, people: number, waiting: number, inputTokens: number, outputTokens: number, costUsd: number|null}} */
export function totalsOf(live) {
  const priced = live.groups.filter(({ costUsd }) => costUsd !== null);
  return {
    ...hitBy(live),
    inputTokens: sum(live.groups, "inputTokens"),
    outputTokens: sum(live.groups, "outputTokens"),
    costUsd: priced.length > 0 ? sum(priced, "costUsd") : null,
  };
}

const sum = (groups, field) => groups.reduce((total, group) => total + group[field], 0);
