/**
 * The base of the page's elements: behaviour on markup that Django wrote. An element is attached once, is told each state,
 * and touches only what changed.
 */
import { slot } from "#studio/dom";

export class StudioElement extends HTMLElement {
  /** @param {{store: object, actions: object, page: object, show: Function}} studio */
  attach(studio) {
    Object.assign(this, studio);
    this.listen();
    this.store.subscribe((state) => this.render(state));
    this.render(this.store.state);
  }

  /** Once, when attached. */
  listen() {}

  /** After each change. */
  render() {}

  find(name) {
    return slot(this, name);
  }

  /** @returns {boolean} whether one of the values that this element shows has changed since the last call */
  changed(...values) {
    const same = this.shown?.every((value, index) => value === values[index]);
    this.shown = values;
    return !same;
  }
}
