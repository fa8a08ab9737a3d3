/**
 * Editing the last message in its place, and sending it anew. The text stays in the editor until the server has taken it.
 */
import { clone, slot } from "#studio/dom";

/** @param {HTMLElement} element the message's @param {object} message @param {object} actions */
export function editMessage(element, message, actions) {
  const editor = slot(element, "editor").firstElementChild ?? open(element, message, actions);
  const text = slot(editor, "text");
  text.focus();
  text.setSelectionRange(text.value.length, text.value.length);
}

/** Something did not work: what was edited can be sent again. */
export function editorFailed(element) {
  const send = slot(element, "editor").querySelector("[type=submit]");
  if (send) send.disabled = false;
}

function open(element, message, actions) {
  const editor = clone("message-editor");
  const text = slot(editor, "text");
  text.value = message.text;
  editor.addEventListener("submit", (event) => {
    event.preventDefault();
    if (text.value.trim() === "") return;
    editor.querySelector("[type=submit]").disabled = true;
    actions.resend(message.sessionKey, message.id, text.value);
  });
  editor.addEventListener("keydown", (event) => key(event, () => close(element)));
  slot(editor, "give-up").addEventListener("click", () => close(element));
  show(element, editor);
  return editor;
}

/** As in the composer: Enter sends, Shift+Enter breaks the line. Esc gives up, and stops nothing. */
function key(event, giveUp) {
  if (event.isComposing) return;
  if (event.key === "Escape") giveUp();
  else if (event.key === "Enter" && !event.shiftKey && event.target.matches("textarea")) event.currentTarget.requestSubmit();
  else return;
  event.preventDefault();
}

function close(element) {
  show(element, null);
  slot(element, "edit").focus();
}

function show(element, editor) {
  slot(element, "editor").replaceChildren(...(editor ? [editor] : []));
  element.classList.toggle("is-edited", editor !== null);
}
