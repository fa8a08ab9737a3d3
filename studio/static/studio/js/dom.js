/**
 * Markup comes from the page's `<template>`s; this fills it. No markup is written here.
 */

/** @param {string} id of a template with one root element @returns {HTMLElement} */
export function clone(id) {
  return document.importNode(document.getElementById(id).content, true).firstElementChild;
}

/** The first element inside `root` that carries `data-slot="name"`. */
export function slot(root, name) {
  return root.querySelector(`[data-slot="${name}"]`);
}

/** Text for each named slot; an empty text hides its slot. Touches only what differs. */
export function write(root, texts) {
  for (const [name, text] of Object.entries(texts)) {
    const element = slot(root, name);
    setText(element, text ?? "");
    element.hidden = !text;
  }
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Make `parent`'s children be one element for each item, in order, kept by key. What had the focus and stays, keeps it.
 * @param {{key: (item) => string, create: (item) => HTMLElement, update: (element, item) => void}} how
 */
export function reconcile(parent, items, { key, create, update }) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const existing = new Map([...parent.children].map((element) => [element.dataset.key, element]));
  const wanted = new Set(items.map((item) => String(key(item))));
  for (const [id, element] of existing) if (!wanted.has(id)) element.remove(); // first: then nobody has to move for it
  let next = parent.firstElementChild;
  items.forEach((item) => {
    const id = String(key(item));
    const element = existing.get(id) ?? create(item);
    element.dataset.key = id;
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
    update(element, item);
  });
  if (focused?.isConnected && focused !== document.activeElement) focused.focus(); // what had to move lost it
}
