/**
 * Tables that are still being written. Pure.
 */

const isRow = (line = "") => /^ {0,3}\|/.test(line);
const maybeDelimiter = (line) => /^[ |:-]*$/.test(line);

/**
 * A table is one only once its second line is whole; until then its first would stand there raw.
 * @param {string} text that still grows @returns {string} `text` without a head at its end that is not whole yet
 */
export function withoutUnfinishedHead(text) {
  const lines = text.split("\n");
  const [last, one, two] = [lines.at(-1), lines.at(-2), lines.at(-3)];
  if (isRow(last) && !isRow(one)) return lines.slice(0, -1).join("\n");
  if (isRow(one) && !isRow(two) && maybeDelimiter(last)) return lines.slice(0, -2).join("\n");
  return text;
}
