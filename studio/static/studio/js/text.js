/**
 * The page's words. They come from Django's catalogue (`jsi18n`); without it, as in the tests, they are English.
 */

const catalogue = () => globalThis.django ?? {};

export const gettext = (text) => catalogue().gettext?.(text) ?? text;

export const ngettext = (singular, plural, count) =>
  catalogue().ngettext?.(singular, plural, count) ?? (count === 1 ? singular : plural);

/** `fill("Step %(n)s", {n: 2})` */
export const fill = (text, values) => text.replaceAll(/%\((\w+)\)s/g, (_, name) => String(values[name]));
