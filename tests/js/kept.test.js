/** The browser's memory: each person's own, and never the next one's. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Memory } from "#studio/kept";

class FakeStorage {
  values = new Map();

  get length() {
    return this.values.size;
  }

  key = (index) => [...this.values.keys()][index];
  getItem = (name) => this.values.get(name) ?? null;
  setItem = (name, value) => this.values.set(name, value);
  removeItem = (name) => this.values.delete(name);
}

let storage;
const memoryOf = (owner) => new Memory(() => storage, owner);

beforeEach(() => {
  storage = new FakeStorage();
});

test("what was saved is there at the next load of the same person", () => {
  memoryOf("1:ann").save("drafts", { k1: "half a thought" });
  assert.deepEqual(memoryOf("1:ann").load("drafts", {}), { k1: "half a thought" });
});

test("the next person in the same browser finds nothing, and leaves nothing of the one before", () => {
  memoryOf("1:ann").save("drafts", { new: "a secret" });
  assert.deepEqual(memoryOf("11:bob").load("drafts", {}), {});
  assert.equal(storage.length, 0);
});

test("what an earlier page kept without a name is forgotten, and what is not ours stays", () => {
  storage.setItem("studio.drafts", '{"new":"a secret"}');
  storage.setItem("other", "1");
  memoryOf("1:ann");
  assert.deepEqual([...storage.values.keys()], ["other"]);
});

test("a browser that refuses costs the memory, not the page", (t) => {
  t.mock.method(console, "info", () => {});
  const refusing = new Memory(() => {
    throw new Error("denied");
  }, "1:ann");
  refusing.save("seen", { k1: "1-idle" });
  assert.deepEqual(refusing.load("seen", {}), {});
});

test("what is not JSON counts as nothing", (t) => {
  t.mock.method(console, "info", () => {});
  storage.setItem("studio/1:ann/seen", "{");
  assert.deepEqual(memoryOf("1:ann").load("seen", {}), {});
});
