/**
 * Copy buttons: `[data-copy="code"]` takes the code beside it, `[data-copy="message"]` the answer's source.
 */
import { slot } from "#studio/dom";

const SAID_MS = 1600;
const SOURCES = {
  code: (button) => slot(button.closest(".code-block"), "code").textContent,
  message: (button) => button.closest("studio-message").source,
};

/** A page on plain http has no clipboard: then the buttons stay away. */
export function enableCopy(root) {
  root.classList.toggle("can-copy", Boolean(navigator.clipboard));
  root.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-copy]");
    if (button) copy(button);
  });
}

async function copy(button) {
  await navigator.clipboard.writeText(SOURCES[button.dataset.copy](button));
  button.classList.add("is-copied");
  setTimeout(() => button.classList.remove("is-copied"), SAID_MS);
}
