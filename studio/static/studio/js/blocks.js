/**
 * The blocks of a text that grows, found without reading all of it again. Pure.
 *
 * Promise: a block that two others follow is final, and is not read any more. The last two may still change: a list goes on
 * after an empty line, and what looked like a fence turns out to be none. When the text is whole it is read once more as a
 * whole, so what is shown in the end does not depend on how it came.
 */
import { withoutUnfinishedHead } from "#studio/tables";

const OPEN_BLOCKS = 2;

export class Blocks {
  #lex;
  #final = ""; // the text that is not read any more
  #count = 0; // of its blocks
  #definitions = ""; // of links in it, which what follows may use

  /** @param {(text: string) => object[]} lex as `marked`'s: tokens with `raw`, and `links` */
  constructor(lex) {
    this.#lex = lex;
  }

  /** @returns {{from: number, tokens: object[], links: object}} the blocks from number `from` on */
  read(text, { open }) {
    if (!open || !text.startsWith(this.#final)) this.#restart();
    const tail = text.slice(this.#final.length);
    const tokens = this.#lex(this.#definitions + (open ? withoutUnfinishedHead(tail) : tail));
    const { links } = tokens;
    if (this.#definitions) tokens.splice(0, tokens.findIndex(({ type }) => type !== "def" && type !== "space"));
    const from = this.#count;
    if (open) this.#finish(tokens, tail);
    return { from, tokens: tokens.filter(isBlock), links };
  }

  #finish(tokens, tail) {
    const last = tokens.map((token, index) => (isBlock(token) ? index : -1)).filter((index) => index >= 0).at(-OPEN_BLOCKS);
    const done = tokens.slice(0, last ?? 0);
    const raw = done.map((token) => token.raw).join("");
    if (!tail.startsWith(raw)) return; // the lexer has changed what it read: then nothing is final
    this.#final += raw;
    this.#count += done.filter(isBlock).length;
    this.#definitions += done.filter(({ type }) => type === "def").map((token) => `${token.raw.trim()}\n\n`).join("");
  }

  #restart() {
    this.#final = "";
    this.#count = 0;
    this.#definitions = "";
  }
}

const isBlock = ({ type }) => type !== "space" && type !== "def";
