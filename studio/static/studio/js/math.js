/**
 * Maths in Markdown, shown as the text that it is: without this, Markdown would take `_`, `*` and `\(` for its own.
 */
const BLOCK = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\]) *(?:\n+|$)/;
const INLINE = /^(?:\$\$[^$\n]+?\$\$|\\\([^\n]+?\\\)|\\\[[^\n]+?\\\]|\$(?![\s$])(?:\\.|[^\\\n$])*?[^\s\\$]\$(?!\d))/;

/** Extensions of `marked`. A price is no formula: a closing `$` follows a character and has no digit behind it. */
export const MATH = [
  {
    name: "math-block",
    level: "block",
    start: (source) => /(?:^|\n) {0,3}(?:\$\$|\\\[)/.exec(source)?.index,
    tokenizer(source) {
      const [raw, dollars, brackets] = BLOCK.exec(source) ?? [];
      return raw && { type: "code", lang: "tex", raw, text: (dollars ?? brackets).trim() };
    },
  },
  {
    name: "math-inline",
    level: "inline",
    start: (source) => /\$|\\[([]/.exec(source)?.index,
    tokenizer(source) {
      const [raw] = INLINE.exec(source) ?? [];
      return raw && { type: "codespan", raw, text: raw };
    },
  },
];
