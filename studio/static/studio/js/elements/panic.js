/**
 * `<studio-panic>`: stops everything on every worker, or all of a person or a model, behind one question that says, live,
 * how much that is; and releases what is held. Only for those who may; never disabled.
 */
import { modelName } from "#studio/choice";
import { clone, reconcile, setText, slot, write } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { moment, number, seconds } from "#studio/format";
import { scopeWords } from "#studio/hold-words";
import { fill, gettext, ngettext } from "#studio/text";
import { hitBy } from "#studio/watching";

class StudioPanic extends StudioElement {
  #asked = null; // the connection that was asked to tell what runs

  listen() {
    const dialog = this.find("dialog");
    this.find("open").addEventListener("click", () => this.#ask(dialog));
    this.find("cancel").addEventListener("click", () => dialog.close());
    this.find("form").addEventListener("submit", (event) => this.#confirm(event, dialog));
    this.find("confirm").addEventListener("keydown", (event) => event.repeat && event.preventDefault());
    ["user", "model", "hold"].forEach((name) => this.find(name).addEventListener("input", () => this.#show()));
    dialog.addEventListener("close", () => this.actions.unwatch());
    this.find("holds").addEventListener("click", ({ target }) => {
      const release = target.closest("[data-slot=release]");
      if (release) this.actions.release(release.closest("[data-key]").dataset.key);
    });
  }

  render({ options, live, connection }) {
    if (!this.changed(options, live, connection)) return;
    this.find("open").hidden = !options?.permissions.panic;
    if (!this.find("dialog").open) return;
    if (connection.status === "live" && this.#asked !== connection) this.#watch(connection);
    this.#show();
  }

  /** What is watched is told to one connection, so it is asked of each. */
  #watch(connection) {
    this.#asked = connection;
    this.actions.watch();
  }

  #ask(dialog) {
    this.find("form").reset();
    dialog.showModal();
    this.find("confirm").focus();
    this.#watch(this.store.state.connection);
    this.#show();
  }

  #confirm(event, dialog) {
    event.preventDefault();
    const reason = this.find("reason").value.trim();
    const hold = this.find("hold").checked;
    const scope = this.#scope();
    dialog.close();
    this.actions.panic({
      ...(reason && { reason }),
      ...(hold && { hold }),
      ...(Object.keys(scope).length > 0 && { scope }),
    });
  }

  #scope() {
    const [user, model] = [this.find("user").value.trim(), this.find("model").value];
    return { ...(user && { user }), ...(model && { model }) };
  }

  #show() {
    const { live, options } = this.store.state;
    this.#offer(live, options);
    const scoped = Object.keys(this.#scope()).length > 0;
    setText(this.find("title"), scoped ? gettext("Stop these?") : gettext("Stop everything?"));
    setText(this.find("confirm"), scoped ? gettext("Stop these") : gettext("Stop everything"));
    setText(this.find("hit"), this.#hit());
    this.#showHolds(live?.holds ?? [], options);
  }

  #hit() {
    const { live, connection } = this.store.state;
    if (connection.status !== "live") return gettext("There is no connection now, so nobody can count what runs.");
    return live === null ? gettext("Counting…") : hitWords(hitBy(live, this.#scope()), this.find("hold").checked);
  }

  /** Who and what has something running or waiting; and any model on offer, so that it can be held before it runs. */
  #offer(live, options) {
    const groups = live?.groups ?? [];
    const people = new Set(groups.map(({ user }) => user).filter(Boolean));
    offer(this.find("people"), [...people].sort(), (name) => name);
    const models = new Set([...groups.map(({ model }) => model), ...(options?.models ?? []).map(({ id }) => id)]);
    const select = this.find("model");
    select.options[0].dataset.key = "";
    models.delete("");
    if (select.value) models.add(select.value);
    offer(select, ["", ...[...models].sort()], (id) => (id ? modelName(id, options) : select.options[0].text));
  }

  #showHolds(holds, options) {
    this.find("held").hidden = holds.length === 0;
    reconcile(this.find("holds"), holds, {
      key: ({ id }) => id,
      create: () => clone("panic-hold"),
      update: (item, hold) => {
        const scope = scopeWords(hold.scope, options);
        write(item, { scope, words: heldWords(hold), why: hold.reason });
        slot(item, "release").setAttribute("aria-label", `${gettext("Release")}: ${scope}`);
      },
    });
  }
}

function heldWords({ by, at }) {
  const age = seconds(Math.max(0, Date.now() - at));
  return fill(gettext("by %(name)s since %(time)s (%(age)s)"), { name: by, time: moment(at), age });
}

function hitWords({ runs, people, waiting }, hold) {
  const say = (words, n) => fill(words, { n: number(n) });
  if (runs === 0 && !hold) return gettext("Nothing of this is running now.");
  const of = say(ngettext("of %(n)s person", "of %(n)s people", people), people);
  const running = say(ngettext("It stops %(n)s run", "It stops %(n)s runs", runs), runs);
  const first = `${running}${people > 0 ? ` ${of}` : ""}.`;
  if (!hold) return first;
  if (waiting === 0) return `${first} ${gettext("New runs are held.")}`;
  const kept = ngettext("New runs are held, and %(n)s queued message.", "New runs are held, and %(n)s queued messages.", waiting);
  return `${first} ${say(kept, waiting)}`;
}

function offer(parent, values, nameOf) {
  reconcile(parent, values, {
    key: (value) => value,
    create: () => clone("choice"),
    update: (option, value) => {
      if (option.value !== value) option.value = value;
      setText(option, nameOf(value));
    },
  });
}

customElements.define("studio-panic", StudioPanic);
