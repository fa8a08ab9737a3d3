/** What a hold says: no more than it holds, and to whom it concerns. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { holdsOf, holdWords } from "#studio/hold-words";

const OPTIONS = { models: [{ id: "openai/a", label: "Large" }] };
const words = (scope) => holdWords({ scope, by: "op", at: Date.now() }, "ann", OPTIONS).replace(/ since .*/, "");

test("a hold of everything, and one of the reader, hold new runs", () => {
  assert.equal(words({}), "New runs are held by op");
  assert.equal(words({ user: "ann" }), "New runs are held by op");
});

test("a hold of a model or of somebody else says of what", () => {
  assert.equal(words({ model: "openai/a" }), "New runs of Large are held by op");
  assert.equal(words({ user: "ann", model: "openai/a" }), "New runs of Large are held by op");
  assert.equal(words({ user: "bob", model: "openai/gone" }), "New runs of bob, openai/gone are held by op");
});

test("a hold of one model does not concern the messages of another", () => {
  const [all, one] = [{ scope: {} }, { scope: { model: "openai/a" } }];
  assert.deepEqual(holdsOf("openai/a", [all, one]), [all, one]);
  assert.deepEqual(holdsOf("openai/b", [all, one]), [all]);
});
