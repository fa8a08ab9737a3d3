/**
 * Moving an item of a list to another place: by its grip with a pointer, or with Alt and an arrow where the focus is in it.
 */
const EDGE_PX = 20; // so near to the list's edge it scrolls along
const SCROLL_PX = 6;

/**
 * While an item is dragged the list is the pointer's: nobody else may change its order.
 * @param {HTMLElement} list its children carry `data-key`, and a `data-slot="grip"` each
 * @param {{move: (key: string, position: number) => void, dropped: () => void}} on
 */
export function enableMoving(list, on) {
  list.addEventListener("pointerdown", (event) => {
    const grip = event.target.closest("[data-slot=grip]");
    if (grip && !grip.disabled && event.button === 0) drag(list, grip, event.pointerId, on);
  });
  list.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const item = event.target.closest("[data-key]");
    const typing = event.target.closest("textarea");
    if (!by || !event.altKey || event.ctrlKey || event.metaKey || !item || typing) return;
    event.preventDefault();
    const position = [...list.children].indexOf(item) + by;
    if (isPlace(list, position)) on.move(item.dataset.key, position);
  });
}

export const isDragged = (list) => list.querySelector(".is-dragged") !== null;

/** The others make way for the dragged one, which stays in the page: an element that is moved loses its pointer. */
function drag(list, grip, pointerId, { move, dropped }) {
  const item = grip.closest("[data-key]");
  const from = [...list.children].indexOf(item);
  const ended = new AbortController();
  const when = (name, listener) => grip.addEventListener(name, listener, { signal: ended.signal });
  grip.setPointerCapture(pointerId);
  item.classList.add("is-dragged");
  when("pointermove", ({ clientY }) => makeWay(list, item, clientY));
  when("pointerup", () => {
    const position = [...list.children].indexOf(item);
    if (position !== from && isPlace(list, position)) move(item.dataset.key, position);
  });
  when("lostpointercapture", () => {
    ended.abort();
    item.classList.remove("is-dragged");
    dropped();
  });
}

function makeWay(list, item, y) {
  scrollAlong(list, y);
  const { previousElementSibling: above, nextElementSibling: below } = item;
  if (above && y < middle(above)) item.after(above);
  else if (below && isPlace(list, [...list.children].indexOf(below)) && y > middle(below)) item.before(below);
}

function scrollAlong(list, y) {
  const { top, bottom } = list.getBoundingClientRect();
  if (y < top + EDGE_PX) list.scrollTop -= SCROLL_PX;
  else if (y > bottom - EDGE_PX) list.scrollTop += SCROLL_PX;
}

function middle(element) {
  const { top, height } = element.getBoundingClientRect();
  return top + height / 2;
}

/** What is still on its way to the server stands at the end and has no place yet. */
function isPlace(list, position) {
  const grip = list.children[position]?.querySelector("[data-slot=grip]");
  return grip !== undefined && grip !== null && !grip.disabled;
}
