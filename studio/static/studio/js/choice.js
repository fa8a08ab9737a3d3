/**
 * Which model answers next, and in which role. Pure.
 *
 * What was chosen here for a session comes first, then what the session says; a new session begins with the model that
 * its person chose last, while it is still offered. A role may have a model of its own: then the server chooses.
 */
import { openSession } from "#studio/reduce";
import { fill, gettext } from "#studio/text";

/** @returns {string|undefined} the model that answers the next message of the open session */
export function modelOf(state) {
  const offered = state.options?.models ?? [];
  const usual = () => openSession(state)?.model || offered.find((one) => one.default)?.id;
  return fixedModelOf(state) || (chosen(state).model ?? usual());
}

export const roleOf = (state) => state.chosen[state.open]?.roleId ?? openSession(state)?.roleId ?? "";

/** @returns {string} the model that the role brings along, or an empty text */
export const fixedModelOf = (state) => state.options?.roles.find(({ id }) => id === roleOf(state))?.model ?? "";

/** A session that has a role keeps one: a message can name another, but not none. */
export function rolesOf(state) {
  const none = openSession(state)?.roleId ? [] : [{ id: "", name: gettext("No role") }];
  return [...none, ...state.options.roles.map(({ id, name, model }) => ({ id, name: roleName(name, model, state.options) }))];
}

/** @returns {{model?: string, roleId?: string}} what a send has to name: only what the server does not know already */
export function choiceToSend(state) {
  const { model, roleId } = chosen(state);
  return { ...(model && !fixedModelOf(state) && { model }), ...(roleId && { roleId }) };
}

/** @returns {"configured"|"local"|"demo"} told by the id alone, also for a model that is not offered any more */
export function kindOf(model = "") {
  const [provider] = model.split("/");
  return ["local", "demo"].includes(provider) ? provider : "configured";
}

/** A model's name for the reader. The demo says what it is wherever it is named. */
export function modelName(model, options) {
  const label = options?.models.find(({ id }) => id === model)?.label ?? model;
  return kindOf(model) === "demo" && !/demo/i.test(label) ? fill(gettext("%(model)s (demo)"), { model: label }) : label;
}

const roleName = (name, model, options) => (model ? `${name} · ${modelName(model, options)}` : name);

function chosen(state) {
  const here = state.chosen[state.open] ?? {};
  const isNew = state.conversations[state.open]?.fresh && openSession(state) === null;
  const usual = isNew && !here.roleId && state.options?.models.some(({ id }) => id === state.usualModel);
  return { ...(usual && { model: state.usualModel }), ...here };
}
