/**
 * Where the time of an answer went: each model call and each tool, in order. Pure.
 *
 * Told by what is stored: a part says when it began, a tool how long it ran. An answer kept before there were such times,
 * or by a worker that was lost, has fewer of them; what is not known is not shown.
 */

/**
 * @param {{parts: object[], createdAt: number, finishedAt: number|null}} message
 * @returns {{kind: "model"|"tool", step: number, name?: string, state?: string, ms: number|null}[]} empty for an answer in
 *   one step without tools: that took what the answer took
 */
export function timeline({ parts, createdAt, finishedAt }) {
  const steps = stepsOf(parts.filter(({ startedAt }) => startedAt));
  if (steps.length < 2 && !parts.some(isCall)) return [];
  let from = createdAt;
  return steps.flatMap(([step, own], index) => {
    const calls = own.filter(isCall);
    const until = calls.length ? Math.min(...calls.map(({ startedAt }) => startedAt)) : (nextStart(steps, index) ?? finishedAt);
    const model = { kind: "model", step, ms: span(from, until) };
    from = calls.length ? endOf(calls) : until;
    return [model, ...calls.map(({ name, state, durationMs }) => ({ kind: "tool", step, name, state, ms: durationMs }))];
  });
}

/** @returns {number|null} how long the part at `index` was written: until the next one began, or the answer ended */
export function writtenMs({ parts, finishedAt }, index) {
  return span(parts[index].startedAt, parts[index + 1]?.startedAt ?? (index === parts.length - 1 ? finishedAt : null));
}

function stepsOf(parts) {
  const steps = new Map();
  for (const part of parts) steps.set(part.step, [...(steps.get(part.step) ?? []), part]);
  return [...steps];
}

const isCall = ({ kind, startedAt }) => kind === "tool" && Boolean(startedAt);

const nextStart = (steps, index) => steps[index + 1]?.[1][0].startedAt;

const endOf = (calls) =>
  calls.some(({ durationMs }) => durationMs === null)
    ? null
    : Math.max(...calls.map(({ startedAt, durationMs }) => startedAt + durationMs));

const span = (from, until) => (from && until ? Math.max(0, until - from) : null);
