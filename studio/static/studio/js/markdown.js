/**
 * Markdown to DOM, block by block. Promise: only blocks whose source changed are rendered again, nothing reaches the page
 * unsanitised, no remote image is loaded, raw HTML is shown as the text that it is, and links open apart.
 */
import DOMPurify from "dompurify";
import { Marked } from "marked";

import { clone, slot } from "#studio/dom";
import { withoutUnfinishedHead } from "#studio/tables";

const marked = new Marked({ gfm: true, breaks: true });
const HARMLESS_HTML = /^<\/?(br|sub|sup|kbd|u|mark)\s*\/?>$/i;
const SANITIZE = {
  RETURN_DOM_FRAGMENT: true,
  ALLOW_DATA_ATTR: false,
  USE_PROFILES: { html: true },
  FORBID_TAGS: ["img", "style", "form", "button", "select", "textarea", "video", "audio", "picture", "source"],
  FORBID_ATTR: ["style", "id", "name"],
};
let highlighter = null;

/**
 * Show `text` in `element`.
 * @param {{open: boolean}} options `open` while the text still grows: its last block may change, and is not highlighted
 */
export function renderMarkdown(element, text, { open }) {
  const tokens = marked.lexer(open ? withoutUnfinishedHead(text) : text);
  const blocks = tokens.filter(({ type }) => type !== "space" && type !== "def");
  const linked = !open && Object.keys(tokens.links).length > 0; // a late definition changes earlier blocks
  blocks.forEach((token, index) => {
    const last = open && index === blocks.length - 1;
    const source = `${last ? "open" : "closed"}:${token.raw.trimEnd()}`;
    const block = element.children[index] ?? element.appendChild(clone("markdown-block"));
    if (block.source === source && !linked) return;
    block.source = source;
    block.replaceChildren(renderBlock(token, tokens.links, last));
  });
  while (element.children.length > blocks.length) element.lastElementChild.remove();
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

/** Images become links; HTML in the answer is text, so that it can be read. */
function tame(token) {
  if (token.type === "image") {
    const text = token.text || token.href;
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
