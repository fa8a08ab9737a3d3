/** Markdown that grows: the same in the end however it came, and what is finished is not read again. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { Marked } from "marked";

import { Blocks } from "#studio/blocks";
import { MATH } from "#studio/math";

const marked = new Marked({ gfm: true, breaks: true, extensions: MATH });
const SAMPLE = `# Title
A paragraph with *emphasis* and [a link][ref].
It goes on

- one
- two

  with a paragraph

- three
    1. nested
    2. more

Setext
======

> quoted
lazy

\`\`\`python
print("closed")

print("still")
\`\`\`

| a | b |
|---|---|
| 1 | 2 |

foo
\`\`\`x\` is no fence

$$
x_1 * y_2
$$

[ref]: https://example.org

***

<div>
html
</div>

The end of [ref].
`;

const rawOf = ({ tokens }) => tokens.map(({ type, raw }) => [type, raw.trimEnd()]);
const whole = (text) => rawOf(new Blocks((source) => marked.lexer(source)).read(text, { open: true }));

for (const size of [1, 7, 40]) {
  test(`read in pieces of ${size}, the blocks are those of the whole text at each moment`, () => {
    const blocks = new Blocks((source) => marked.lexer(source));
    const known = [];
    for (let end = size; end < SAMPLE.length + size; end += size) {
      const { from, tokens } = blocks.read(SAMPLE.slice(0, end), { open: true });
      known.splice(from, Infinity, ...rawOf({ tokens }));
      assert.deepEqual(known, whole(SAMPLE.slice(0, end)), `at ${end}`);
    }
  });
}

test("only the last blocks of a long text are read again", () => {
  let characters = 0;
  const blocks = new Blocks((source) => {
    characters += source.length;
    return marked.lexer(source);
  });
  const paragraph = "Some words that fill a line of text.\n\n";
  for (let count = 1; count <= 200; count += 1) blocks.read(paragraph.repeat(count), { open: true });
  assert.ok(characters < 200 * paragraph.length * 5, String(characters));
});

test("a definition that came before is known to what follows", () => {
  const blocks = new Blocks((source) => marked.lexer(source));
  const text = "[ref]: https://example.org\n\none\n\ntwo\n\nthree [ref]";
  for (let end = 1; end <= text.length; end += 1) blocks.read(text.slice(0, end), { open: true });
  const { tokens } = blocks.read(text, { open: true });
  assert.match(JSON.stringify(tokens.at(-1)), /"href":"https:\/\/example.org"/);
  assert.deepEqual(rawOf({ tokens }), [["paragraph", "two"], ["paragraph", "three [ref]"]]);
});

test("a text that is another one is read from its beginning", () => {
  const blocks = new Blocks((source) => marked.lexer(source));
  blocks.read("one\n\ntwo\n\nthree\n\nfour", { open: true });
  assert.equal(blocks.read("another\n\ntext", { open: true }).from, 0);
});

test("a text that is whole is read as a whole", () => {
  const blocks = new Blocks((source) => marked.lexer(source));
  blocks.read(SAMPLE, { open: true });
  const { from, tokens } = blocks.read(SAMPLE, { open: false });
  assert.equal(from, 0);
  assert.deepEqual(rawOf({ tokens }), whole(SAMPLE));
});
