/** Numbers, durations and times as the reader writes them. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { duration, moment } from "#studio/format";

const FOUR_PM = new Date(2026, 2, 1, 16, 5, 9);
const browser = globalThis.navigator;
const prefer = (...languages) => Object.defineProperty(globalThis, "navigator", { value: { languages }, configurable: true });
afterEach(() => Object.defineProperty(globalThis, "navigator", { value: browser, configurable: true }));

test("a time of day is written as in the reader's region", () => {
  prefer("ru-RU", "en-GB", "en-US");
  assert.equal(moment(FOUR_PM, FOUR_PM), "16:05:09");
  prefer("en-US", "en-GB");
  assert.match(moment(FOUR_PM, FOUR_PM), /^4:05:09\sPM$/);
});

test("without a region of the page's language its own way is taken", () => {
  prefer("ru-RU");
  assert.match(moment(FOUR_PM, FOUR_PM), /^4:05:09\sPM$/);
});

test("what took no time that could be measured is not said to have taken none", () => {
  assert.equal(duration(0), "less than 1 ms");
  assert.equal(duration(1), "1 ms");
});
