/**
 * Copy buttons: `[data-copy="code"]` takes the code beside it, `[data-copy="message"]` the answer's source. That it was
 * taken is shown on the button and told to a screen reader.
 */
import { setText, slot } from "#studio/dom";
import { gettext } from "#studio/text";

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
  const announcer = document.querySelector("studio-announcer");
  const words = gettext("Copied");
  setText(announcer, words);
  setTimeout(() => {
    button.classList.remove("is-copied");
    if (announcer.textContent === words) setText(announcer, ""); // an end told meanwhile stays
  }, SAID_MS);
}
