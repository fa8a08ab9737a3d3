/**
 * Which session the address names. Links inside the studio change it without a load.
 */
export class Route {
  #urls;
  #show;

  /** @param {{home: string, session: string}} urls `session` has KEY in the key's place @param {Function} show */
  constructor(urls, show) {
    this.#urls = urls;
    this.#show = show;
    document.addEventListener("click", (event) => this.#click(event));
    window.addEventListener("popstate", () => show(this.#keyOf(location.pathname)));
  }

  /** Make the address name `sessionKey`, which is open already. */
  go(sessionKey) {
    const path = this.#urls.session.replace("KEY", sessionKey);
    if (location.pathname !== path) history.pushState(null, "", path);
  }

  #click(event) {
    const link = event.target.closest("a[data-route]");
    if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (location.pathname !== link.pathname) history.pushState(null, "", link.pathname);
    this.#show(this.#keyOf(link.pathname));
    document.querySelector("studio-composer").focusText();
  }

  #keyOf(path) {
    const [before, after] = this.#urls.session.split("KEY");
    return path.startsWith(before) && path !== this.#urls.home ? path.slice(before.length, -after.length) : null;
  }
}
