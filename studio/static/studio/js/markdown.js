/**
 * Markdown to DOM, block by block. Promise: only blocks whose source changed are rendered again, nothing reaches the page
 * unsanitised, no remote image is loaded, raw HTML and maths are shown as the text that they are, and links open apart and
 * tell nobody where they were.
 */
import DOMPurify from "dompurify";
import { Marked } from "marked";

import { Blocks } from "#studio/blocks";
import { clone, slot } from "#studio/dom";
import { MATH } from "#studio/math";
import { fill, gettext } from "#studio/text";

const marked = new Marked({ gfm: true, breaks: true, extensions: MATH });
const HARMLESS_HTML = /^<\/?(br|sub|sup|kbd|u|mark)\s*\/?>$/i;
const SANITIZE = {
  RETURN_DOM_FRAGMENT: true,
  ALLOW_DATA_ATTR: false,
  USE_PROFILES: { html: true },
  FORBID_TAGS: ["img", "style", "form", "button", "select", "textarea", "video", "audio", "picture", "source"],
  FORBID_ATTR: ["style", "id", "name"],
};
const read = new WeakMap(); // element → the blocks of its text
let highlighter = null;

/**
 * Show `text` in `element`.
 * @param {{open: boolean}} options `open` while the text still grows: its last block may change, and is not highlighted
 */
export function renderMarkdown(element, text, { open }) {
  if (!read.has(element)) read.set(element, new Blocks((source) => marked.lexer(source)));
  const { from, tokens, links } = read.get(element).read(text.replaceAll("\r\n", "\n"), { open });
  const linked = !open && Object.keys(links).length > 0; // a late definition changes earlier blocks
  tokens.forEach((token, index) => {
    const last = open && index === tokens.length - 1;
    const source = `${last ? "open" : "closed"}:${token.raw.trimEnd()}`;
    const block = element.children[from + index] ?? element.appendChild(clone("markdown-block"));
    if (block.source === source && !(linked && source.includes("["))) return;
    block.source = source;
    block.replaceChildren(renderBlock(token, links, last));
  });
  while (element.children.length > from + tokens.length) element.lastElementChild.remove();
}

function renderBlock(token, links, open) {
  marked.walkTokens([token], tame);
  const html = marked.parser(Object.assign([token], { links }));
  const fragment = DOMPurify.sanitize(html, SANITIZE);
  fragment.querySelectorAll("a[href]").forEach(openApart);
  fragment.querySelectorAll("pre > code").forEach((code) => code.parentElement.replaceWith(codeBlock(code, open)));
  fragment.querySelectorAll("table").forEach(wrapTable);
  return fragment;
}

/** Images become links, since loading one tells its server who reads what; HTML in the answer is text, to be read. */
function tame(token) {
  if (token.type === "image") {
    const text = fill(gettext("Picture: %(text)s"), { text: token.text || token.href });
    Object.assign(token, { type: "link", tokens: [{ type: "text", raw: text, text }] });
  } else if (token.type === "html" && !HARMLESS_HTML.test(token.raw.trim())) {
    const text = token.raw.trimEnd();
    const inner = { type: "text", raw: text, text };
    Object.assign(token, token.block ? { type: "paragraph", text, tokens: [inner] } : inner);
  }
}

function openApart(link) {
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.referrerPolicy = "no-referrer";
}

function wrapTable(table) {
  const wrapper = clone("markdown-table");
  table.replaceWith(wrapper);
  wrapper.append(table);
}

function codeBlock(code, open) {
  const block = clone("code-block");
  const language = /language-([\w+#.-]+)/.exec(code.className)?.[1] ?? "";
  slot(block, "language").textContent = language;
  const target = slot(block, "code");
  target.textContent = code.textContent;
  if (!open && language) highlight(target, language);
  return block;
}

/** The highlighter is large and seldom needed: it is loaded with the first closed fence that names a language. */
async function highlight(target, language) {
  highlighter ??= import("highlight.js");
  const { default: hljs } = await highlighter;
  if (!hljs.getLanguage(language)) return;
  const { value } = hljs.highlight(target.textContent, { language, ignoreIllegals: true });
  target.replaceChildren(DOMPurify.sanitize(value, SANITIZE));
}
