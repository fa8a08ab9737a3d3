/** The page's sources, as text, for the tests that hold its parts together. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = new URL("../../", import.meta.url).pathname;

export const read = (path) => readFileSync(join(ROOT, path), "utf8");
export const readBytes = (path) => readFileSync(join(ROOT, path));

/** @returns {string[]} the paths below `folder` that end with `suffix`, relative to `folder` */
export function list(folder, suffix) {
  return readdirSync(join(ROOT, folder), { recursive: true }).filter((path) => path.endsWith(suffix)).sort();
}

export const SCRIPTS = "studio/static/studio/js";
export const scripts = () => list(SCRIPTS, ".js").map((path) => ({ path, text: read(join(SCRIPTS, path)) }));
export const templates = () => list("templates", ".html").map((path) => ({ path, text: read(join("templates", path)) }));

/** @returns {string[]} the first group of every match, each once */
export const found = (texts, pattern) => [
  ...new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map((match) => match[1]))),
];
