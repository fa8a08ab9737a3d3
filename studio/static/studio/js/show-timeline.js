/**
 * The timeline of an answer, one line: step 1 1.2 s → add 0.4 s → step 2 …
 */
import { clone, reconcile, write } from "#studio/dom";
import { duration, number } from "#studio/format";
import { fill, gettext } from "#studio/text";
import { timeline } from "#studio/timeline";

/** @param {HTMLElement} list hidden where there is nothing to tell */
export function showTimeline(list, message) {
  const spans = timeline(message);
  list.hidden = spans.length === 0;
  reconcile(list, spans.map((span, index) => ({ ...span, index })), {
    key: ({ index, kind }) => `${index}-${kind}`,
    create: () => clone("timeline-item"),
    update(item, { kind, step, name, state, ms }) {
      item.dataset.kind = kind;
      item.dataset.state = state ?? "";
      const what = kind === "tool" ? name : fill(gettext("step %(n)s"), { n: number(step) });
      write(item, { what, took: ms === null ? "" : duration(ms) });
    },
  });
}
