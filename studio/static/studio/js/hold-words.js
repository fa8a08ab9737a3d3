/**
 * What a hold says of itself, and whom it concerns. Pure.
 */
import { modelName } from "#studio/choice";
import { moment } from "#studio/format";
import { fill, gettext } from "#studio/text";

/** @returns {string} what is held, by whom and since when; to the one who is held their own name says nothing */
export function holdWords({ scope, by, at }, userName, options) {
  const { user, model } = scope;
  const others = { ...(user !== userName && { user }), model };
  const said = { scope: scopeWords(others, options), name: by, time: moment(at) };
  if (!others.user && !model) return fill(gettext("New runs are held by %(name)s since %(time)s."), said);
  return fill(gettext("New runs of %(scope)s are held by %(name)s since %(time)s."), said);
}

/** @returns {string} a scope in the words of those who read of it */
export function scopeWords({ user, model }, options) {
  return [user, model && modelName(model, options)].filter(Boolean).join(", ") || gettext("everything");
}

/** A hold of another model lets this one's messages go. */
export const holdsOf = (model, holds) => holds.filter(({ scope }) => !scope.model || scope.model === model);
