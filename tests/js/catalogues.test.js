/** The three languages are complete: every text of the page is translated, and what is compiled is what is written. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { found, list, read, readBytes, scripts, templates } from "./files.js";

const STRING = String.raw`"((?:[^"\\]|\\.)*)"`;
const texts = (files) => files.map(({ text }) => text);
const unescape = (text) => JSON.parse(`"${text}"`);
const PLACEHOLDER = /%\(\w+\)s/g;

/** @returns {Map<string, string[]>} each text with its translations */
function parsePo(path) {
  const entry = new RegExp(`^msgid ${STRING}\\n(?:msgid_plural ${STRING}\\n)?((?:msgstr(?:\\[\\d\\])? ${STRING}\\n?)+)`, "gm");
  const translations = (block) => [...block.matchAll(new RegExp(`msgstr(?:\\[\\d\\])? ${STRING}`, "g"))];
  return new Map(
    [...read(path).matchAll(entry)]
      .filter(([, id]) => id !== "")
      .map(([, id, , block]) => [unescape(id), translations(block).map((match) => unescape(match[1]))]),
  );
}

/** @returns {Map<string, string[]>} the same, from the compiled file: two tables of lengths and offsets */
function parseMo(path) {
  const bytes = readBytes(path);
  const [count, ids, strings] = [8, 12, 16].map((at) => bytes.readUInt32LE(at));
  const text = (table, index) => {
    const at = bytes.readUInt32LE(table + index * 8 + 4);
    return bytes.toString("utf8", at, at + bytes.readUInt32LE(table + index * 8)).split("\0");
  };
  const rows = Array.from({ length: count }, (_, index) => [text(ids, index)[0], text(strings, index)]);
  return new Map(rows.filter(([id]) => id !== ""));
}

const USED = {
  django: found(texts(templates()), /\{% translate ["']((?:[^"'%]|(?<=\w)'(?=\w))*)["'] %\}/g),
  djangojs: found(texts(scripts()), new RegExp(`(?:gettext|ngettext)\\(\\s*${STRING}`, "g")).map(unescape),
};

for (const path of list("locale", ".po")) {
  const domain = path.endsWith("djangojs.po") ? "djangojs" : "django";
  const catalogue = parsePo(`locale/${path}`);

  test(`${path} translates every text, each form of it, with its placeholders`, () => {
    assert.ok(USED[domain].length > 50);
    for (const id of USED[domain]) assert.ok(catalogue.has(id), `no entry: ${id}`);
    for (const [id, forms] of catalogue) {
      for (const form of forms) {
        assert.ok(form, `not translated: ${id}`);
        assert.deepEqual(form.match(PLACEHOLDER)?.sort(), id.match(PLACEHOLDER)?.sort(), id);
      }
    }
    assert.doesNotMatch(read(`locale/${path}`), /#, .*fuzzy/);
  });

  if (domain === "djangojs") { // tests/studio/test_translations.py reads the other, whose texts are in Python too
    test(`${path} keeps no text that no script speaks any more`, () => {
      assert.deepEqual([...catalogue.keys()].filter((id) => !USED.djangojs.includes(id)), []);
    });
  }

  test(`${path} is what its compiled file says`, () => {
    const compiled = parseMo(`locale/${path.replace(".po", ".mo")}`);
    assert.deepEqual([...compiled].sort(), [...catalogue].sort());
  });
}

test("there are catalogues for Brazilian Portuguese and Russian", () => {
  const languages = new Set(list("locale", ".po").map((path) => path.split("/")[0]));
  assert.deepEqual([...languages], ["pt_BR", "ru"]);
});
