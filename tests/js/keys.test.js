/** The table of keys: what is a command where, on which keyboard; and the sheet tells of every one. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { COMMANDS, commandOf, enterOf, isMac } from "#studio/keys";

import { found, read } from "./files.js";

const IDLE = { typing: false, mac: false, bare: true };
const press = (key, over = {}) => ({
  key, code: "", ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, isComposing: false, keyCode: 0, ...over,
});
const ctrl = { ctrlKey: true };
const shift = { shiftKey: true };
const alt = { altKey: true };

for (const [name, event, command] of [
  ["Esc", press("Escape"), "stop"],
  ["Shift+Esc", press("Escape", shift), "write"],
  ["Ctrl+/", press("/", ctrl), "help"],
  ["?", press("?", shift), "help"],
  ["Ctrl+K", press("k", ctrl), "search"],
  ["Ctrl+K on a Russian keyboard", press("л", { ...ctrl, code: "KeyK" }), "search"],
  ["Ctrl+Shift+O", press("O", { ...ctrl, ...shift }), "new"],
  ["Alt+PageUp", press("PageUp", alt), "previous"],
  ["Alt+PageDown", press("PageDown", alt), "next"],
  ["Alt+End", press("End", alt), "end"],
  ["k alone", press("k"), null],
  ["Ctrl+T where K is on another layout", press("t", { ...ctrl, code: "KeyK" }), null],
  ["Ctrl+Alt+K", press("k", { ...ctrl, ...alt }), null],
  ["End alone", press("End"), null],
]) {
  test(`${name} ${command ? `means ${command}` : "means nothing"}`, () => assert.equal(commandOf(event, IDLE), command));
}

test("on a Mac it is the command key, and not Ctrl", () => {
  const mac = { ...IDLE, mac: true };
  assert.equal(commandOf(press("k", { metaKey: true }), mac), "search");
  assert.equal(commandOf(press("k", ctrl), mac), null);
  assert.equal(commandOf(press("k", { metaKey: true }), IDLE), null);
  assert.deepEqual(["MacIntel", "iPhone", "Linux x86_64", "Win32"].map(isMac), [true, true, false, false]);
});

test("a character alone is text in a field, and can be switched off", () => {
  assert.equal(commandOf(press("?", shift), { ...IDLE, typing: true }), null);
  assert.equal(commandOf(press("?", shift), { ...IDLE, bare: false }), null);
  assert.equal(commandOf(press("/", ctrl), { ...IDLE, typing: true, bare: false }), "help");
});

test("no key is a command while a word is composed", () => {
  for (const composing of [{ isComposing: true }, { keyCode: 229 }]) {
    assert.equal(commandOf(press("Escape", composing), IDLE), null);
    assert.equal(enterOf(press("Enter", composing), IDLE), null);
  }
});

test("Enter is done, Shift breaks the line, Ctrl or the command key is now", () => {
  const mac = { mac: true };
  assert.deepEqual([{}, shift, ctrl].map((held) => enterOf(press("Enter", held), IDLE)), ["done", "break", "now"]);
  assert.equal(enterOf(press("Enter", { metaKey: true }), mac), "now");
  assert.equal(enterOf(press("x"), IDLE), null);
});

test("the sheet tells of every command", () => {
  const told = found([read("templates/studio/partials/shortcuts.html")], /data-command="(\w+)"/g);
  assert.deepEqual(told.sort(), [...COMMANDS].sort());
});
