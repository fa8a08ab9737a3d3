/**
 * Lengths and cuts in Unicode code points, which is how the wire counts; JavaScript's own strings count UTF-16 units.
 */

/** @param {string} text @returns {number} code points in `text` */
export function codePointLength(text) {
  let length = 0;
  for (let index = 0; index < text.length; index += isPair(text, index) ? 2 : 1) length += 1;
  return length;
}

/** @param {string} text @param {number} count @returns {string} `text` without its first `count` code points */
export function dropCodePoints(text, count) {
  let index = 0;
  for (let left = count; left > 0 && index < text.length; left -= 1) index += isPair(text, index) ? 2 : 1;
  return text.slice(index);
}

function isPair(text, index) {
  return text.codePointAt(index) > 0xffff;
}
