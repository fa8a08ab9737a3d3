/** A table that is still being written is not shown raw. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { withoutUnfinishedHead } from "#studio/tables";

const TABLE = "Before\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n";

test("a growing table appears with its second line, and then row by row", () => {
  const delimited = TABLE.indexOf("| 1");
  for (let length = 1; length <= TABLE.length; length += 1) {
    const shown = withoutUnfinishedHead(TABLE.slice(0, length));
    assert.equal(shown.includes("|"), length >= delimited, TABLE.slice(0, length));
    if (length >= delimited) assert.equal(shown, TABLE.slice(0, length));
  }
});

test("a line that only begins like a table is shown when the next one shows that it is none", () => {
  for (const text of ["| alone\nand on", "| alone\n\n", "a | b\n", "text"]) assert.equal(withoutUnfinishedHead(text), text);
});
