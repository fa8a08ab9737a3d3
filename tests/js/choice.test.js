/** Which model answers next: what was chosen here, what the session says, what its person chose last. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { choiceToSend, fixedModelOf, kindOf, modelName, modelOf, rolesOf } from "#studio/choice";
import { initialState, reduce } from "#studio/reduce";

const OPTIONS = {
  type: "studio_chat_options_ok", ok: true, roles: [], permissions: {}, limits: {},
  models: [{ id: "openai/a", label: "openai/a", default: true }, { id: "demo/scripted", label: "Scripted" }],
};
const session = (model) => ({ type: "studio_chat_session", session: { key: "k1", model, state: "idle", updatedAt: 1 } });
const play = (frames, known = {}) => [OPTIONS, ...frames].reduce(reduce, initialState(known));
const openNew = { type: "page_open", sessionKey: "k1", fresh: true };
const choose = { type: "page_choice", sessionKey: "k1", model: "demo/scripted" };

test("without a choice the studio's own model answers, and a send need not name it", () => {
  const state = play([openNew]);
  assert.equal(modelOf(state), "openai/a");
  assert.deepEqual(choiceToSend(state), {});
});

test("what was chosen here comes before what the session says", () => {
  const state = play([openNew, session("openai/a"), choose]);
  assert.equal(modelOf(state), "demo/scripted");
  assert.deepEqual(choiceToSend(state), { model: "demo/scripted" });
});

test("a new session begins with the model that was chosen last", () => {
  const state = play([openNew, choose, { type: "page_open", sessionKey: "k2", fresh: true }]);
  assert.equal(modelOf(state), "demo/scripted");
  assert.deepEqual(choiceToSend(state), { model: "demo/scripted" });
});

test("a session that exists keeps its model whatever was chosen elsewhere", () => {
  const state = play([openNew, session("openai/a")], { usualModel: "demo/scripted" });
  assert.equal(modelOf(state), "openai/a");
  assert.deepEqual(choiceToSend(state), {});
});

test("a remembered model that is not offered any more is not asked for", () => {
  const state = play([openNew], { usualModel: "openai/gone" });
  assert.equal(modelOf(state), "openai/a");
  assert.deepEqual(choiceToSend(state), {});
});

test("the demo says that it is one wherever it is named", () => {
  assert.equal(modelName("demo/scripted", play([]).options), "Scripted (demo)");
  assert.equal(modelName("openai/gone", null), "openai/gone");
  assert.deepEqual(["demo/x", "local/x", "openai/x", undefined].map(kindOf), ["demo", "local", "configured", "configured"]);
});

const withRoles = {
  ...OPTIONS, roles: [{ id: "1", name: "Critic", model: "demo/scripted" }, { id: "2", name: "Poet", model: null }],
};
const inRole = (roleId) => play([withRoles, openNew, session("openai/a"), { type: "page_choice", sessionKey: "k1", roleId }]);

test("a role with a model of its own brings it along, whatever was chosen before", () => {
  const state = reduce(reduce(inRole("2"), { ...choose, model: "openai/a" }), { type: "page_choice", sessionKey: "k1", roleId: "1" });
  assert.equal(fixedModelOf(state), "demo/scripted");
  assert.equal(modelOf(state), "demo/scripted");
  assert.deepEqual(choiceToSend(state), { roleId: "1" });
});

test("a role without one leaves the choice", () => {
  const state = reduce(inRole("2"), choose);
  assert.equal(fixedModelOf(state), "");
  assert.deepEqual(choiceToSend(state), { model: "demo/scripted", roleId: "2" });
});

test("a role is named with its model, and none is offered only where there is none yet", () => {
  assert.deepEqual(rolesOf(inRole("1")).map(({ name }) => name), ["No role", "Critic · Scripted (demo)", "Poet"]);
  const settled = { ...session("openai/a"), session: { ...session("openai/a").session, roleId: "2" } };
  assert.deepEqual(rolesOf(play([withRoles, openNew, settled])).map(({ id }) => id), ["1", "2"]);
});
