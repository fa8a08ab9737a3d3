/** Formulas stay as they were written, and prices are none. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { Marked } from "marked";

import { MATH } from "#studio/math";

const html = (text) => new Marked({ gfm: true, extensions: MATH }).parse(text).trim();

for (const formula of ["$x_1 * y_2 * z$", "$$a_b*c*$$", String.raw`\(a_b*c*\)`, String.raw`\[ x_1 \\ y \]`, "$a$"]) {
  test(`${formula} stays as it is in a line`, () => {
    assert.equal(html(`so ${formula} holds`), `<p>so <code>${formula}</code> holds</p>`);
  });
}

for (const [open, close] of [["$$", "$$"], [String.raw`\[`, String.raw`\]`]]) {
  test(`a block between ${open} and ${close} is shown as code`, () => {
    assert.match(html(`before\n${open}\nx_1 * y * z\n${close}\nafter`), /<pre><code class="language-tex">x_1 \* y \* z\n<\/code><\/pre>/);
  });
}

test("prices and shell variables are no formulas", () => {
  for (const text of ["costs $5 and $10 or $7", "from $HOME to $ PATH", "5$ or 6$"]) assert.doesNotMatch(html(text), /<code>/);
});

test("code keeps its dollars", () => {
  assert.equal(html("`$a_b$`"), "<p><code>$a_b$</code></p>");
});
