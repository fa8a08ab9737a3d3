/**
 * Showing an answer's text: Markdown when the libraries are installed, else plain text. While it grows it is drawn at most
 * every 50 ms; when it is whole, at once.
 */

const DRAW_EVERY_MS = 50;
const drawings = new WeakMap(); // element → {text, open, drawn, timer}
let draw = (element, text) => {
  element.textContent = text;
};

/** Load the Markdown libraries; without a call everything stays plain. */
export async function useMarkdown() {
  const { renderMarkdown } = await import("#studio/markdown");
  draw = renderMarkdown;
}

/** @param {{open: boolean}} options whether the text still grows */
export function showText(element, text, { open }) {
  const drawing = drawings.get(element) ?? { text: null, open: null, drawn: null, timer: null };
  drawings.set(element, drawing);
  if (drawing.text === text && drawing.open === open) return;
  Object.assign(drawing, { text, open });
  if (!open || drawing.timer === null) drawNow(element, drawing);
}

function drawNow(element, drawing) {
  clearTimeout(drawing.timer);
  drawing.timer = drawing.open ? setTimeout(() => drawLate(element, drawing), DRAW_EVERY_MS) : null;
  drawing.drawn = drawing.text;
  element.classList.toggle("is-open", drawing.open);
  draw(element, drawing.text, { open: drawing.open });
}

function drawLate(element, drawing) {
  drawing.timer = null;
  if (drawing.drawn !== drawing.text) drawNow(element, drawing);
}
