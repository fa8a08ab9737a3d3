/** What one file names in another exists there. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { found, read, scripts, templates } from "./files.js";

const texts = (files) => files.map(({ text }) => text);
const PAGES = ["page", "runs-page"];
const markup = templates().filter(({ path }) => path.startsWith("studio/"));

test("the import map names every module", () => {
  const map = read("templates/studio/partials/import_map.html");
  const mapped = found([map], /"#studio\/([\w/-]+)"/g).sort();
  const modules = scripts().map(({ path }) => path.replace(".js", "")).filter((name) => !PAGES.includes(name));
  assert.deepEqual(mapped, modules.sort());
  for (const name of mapped) assert.ok(map.includes(`'studio/js/${name}.js'`), name);
});

test("every import is in the import map", () => {
  const map = read("templates/studio/partials/import_map.html");
  for (const name of found(texts(scripts()), /(?:from|import)[ (]"([^"]+)"/g)) assert.ok(map.includes(`"${name}"`), name);
});

test("every template that a script clones is in the page", () => {
  const ids = found(texts(markup), /<template id="([\w-]+)"/g);
  const named = found(texts(scripts()), /(?:clone\(|ending\.subtle \? |: )"((?:part|ending|message|code|markdown|session|queue|hold|warning|run|panic)-[\w-]+)"/g);
  assert.ok(named.length > 8);
  for (const id of named) if (!id.endsWith("-")) assert.ok(ids.includes(id), id);
});

test("every custom element of the page has its behaviour", () => {
  const defined = found(texts(scripts()), /customElements\.define\("([\w-]+)"/g).sort();
  assert.deepEqual(found(texts(markup), /<(studio-[\w-]+)/g).sort(), defined);
});

test("every frame that the page sends is one that the server parses", () => {
  const parsed = found([read("studio/protocol.py")], /Literal\["(studio_chat_\w+)"\]/g);
  const sent = found(texts(scripts()), /type: "(studio_chat_\w+)"/g);
  assert.ok(sent.length > 8);
  for (const type of sent) assert.ok(parsed.includes(type), type);
});

test("no markup has inline handlers or styles, and no script writes markup", () => {
  for (const { path, text } of templates()) {
    assert.doesNotMatch(text, /\son\w+=|\sstyle=/, path);
  }
  for (const { path, text } of scripts()) {
    assert.doesNotMatch(text, /innerHTML|insertAdjacentHTML|outerHTML|document\.write|createElement/, path);
  }
});
