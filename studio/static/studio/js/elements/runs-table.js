/**
 * `<studio-runs-table>`: the runs, updated in place, drawn at most once in a frame; the seconds of the live ones tick here.
 *
 * One row at a time is in the order of the Tab key; the arrows move it.
 */
import { modelName } from "#studio/choice";
import { clone, reconcile, setText, slot } from "#studio/dom";
import { RowKeys } from "#studio/elements/runs-keys";
import { StudioElement } from "#studio/elements/studio-element";
import { cost, moment, number, seconds } from "#studio/format";
import { canStop, isLive } from "#studio/runs";
import { describeRun, elapsedMs, isFiltered, shownRows } from "#studio/runs-view";
import { fill, gettext } from "#studio/text";

const TICK_MS = 1000;

class StudioRunsTable extends StudioElement {
  #drawing = false;
  #rows = [];
  #slots = new WeakMap(); // the parts of each row's element, found once
  #keys;

  listen() {
    const body = this.find("body");
    this.#keys = new RowKeys(body, {
      toggle: (id) => this.#toggle(id),
      chooseAll: () => this.#chooseAll(true),
      clear: () => this.#chooseAll(false),
      stop: (id) => this.#stop(id),
    });
    this.addEventListener("click", ({ target }) => this.#clicked(target));
    this.find("all").addEventListener("change", ({ target }) => this.#chooseAll(target.checked));
    setInterval(() => this.#tick(), TICK_MS);
  }

  render(state) {
    const { rows, selected, stops, filters, sort, options } = state;
    if (!this.changed(rows, selected, stops, filters, sort, options) || this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => this.#draw());
  }

  focusRow() {
    this.#keys.focus();
  }

  #draw() {
    this.#drawing = false;
    const { state } = this.store;
    this.#rows = shownRows(state, Date.now());
    this.#keys.around(() =>
      reconcile(this.find("body"), this.#rows, {
        key: ({ id }) => id,
        create: () => this.#create(),
        update: (element, row) => this.#update(element, row, state),
      }),
    );
    this.#frame(state);
  }

  #create() {
    const element = clone("run-row");
    const named = [...element.querySelectorAll("[data-slot]")].map((part) => [part.dataset.slot, part]);
    this.#slots.set(element, Object.fromEntries(named));
    return element;
  }

  #update(element, row, state) {
    const parts = this.#slots.get(element);
    const chosen = state.selected.has(row.id);
    const may = canStop(row, state, this.page.userName);
    const shown = [row, chosen, may, state.stops[row.id], state.options];
    if (parts.shown?.every((value, index) => value === shown[index])) return;
    parts.shown = shown;
    this.#write(parts, row, state);
    element.setAttribute("aria-selected", String(chosen));
    Object.assign(parts.choose, { checked: chosen, disabled: !may, hidden: !isLive(row) });
    parts.choose.setAttribute("aria-label", fill(gettext("Choose the run of %(name)s"), { name: row.user ?? "–" }));
    parts.stop.hidden = !may || state.stops[row.id]?.outcome === "asked";
    parts.stop.setAttribute("aria-label", fill(gettext("Stop the run of %(name)s"), { name: row.user ?? "–" }));
  }

  #write(parts, row, { stops, options }) {
    const { tone, words, notes } = describeRun(row, stops);
    const { inputTokens, outputTokens, costUsd, estimated } = row.usage;
    parts.state.dataset.tone = tone;
    setText(parts.state, words);
    setText(parts.notes, notes.join(" · "));
    setText(parts.user, row.user ?? "–");
    setText(parts.kind, row.kind === "title" ? gettext("title") : row.kind === "turn" ? gettext("turn") : row.kind);
    this.#writeSession(parts, row);
    setText(parts.model, modelName(row.model, options) || "–");
    parts.model.title = row.model;
    setText(parts.worker, row.worker ?? "–");
    parts.worker.title = row.worker ?? "";
    setText(parts.step, number(row.steps));
    setText(parts.tokens, `${estimated ? "≈ " : ""}${number(inputTokens)} / ${number(outputTokens)}`);
    setText(parts.cost, costUsd === null ? "–" : cost(costUsd));
    parts.time.title ||= moment(row.startedAt);
    this.#writeTime(parts, row);
  }

  /** The way in is the owner's alone. */
  #writeSession(parts, { sessionKey, user }) {
    const own = sessionKey !== null && user === this.page.userName;
    parts.session.hidden = own;
    parts.link.hidden = !own;
    if (own) parts.link.href = this.page.urls.session.replace("KEY", sessionKey);
    setText(own ? parts.link : parts.session, sessionKey ?? "–");
    (own ? parts.link : parts.session).title = sessionKey ?? "";
  }

  #writeTime(parts, row) {
    setText(parts.time, seconds(elapsedMs(row, Date.now() + this.store.state.clockMs)));
  }

  #tick() {
    if (document.hidden) return;
    for (const element of this.find("body").children) {
      const parts = this.#slots.get(element);
      const [row] = parts.shown;
      if (isLive(row)) this.#writeTime(parts, row);
    }
  }

  /** What stands around the rows. */
  #frame(state) {
    const { rows, filters, sort, selected } = state;
    const stoppable = this.#stoppable();
    const chosen = stoppable.filter(({ id }) => selected.has(id)).length;
    const all = this.find("all");
    Object.assign(all, { disabled: stoppable.length === 0, checked: chosen > 0 && chosen === stoppable.length });
    all.indeterminate = chosen > 0 && chosen < stoppable.length;
    this.find("table").hidden = this.#rows.length === 0;
    this.find("loading").hidden = rows !== null;
    this.find("empty").hidden = rows === null || rows.length > 0;
    this.find("none").hidden = !rows?.length || this.#rows.length > 0 || !isFiltered(filters);
    for (const head of this.querySelectorAll("th[data-sort]")) {
      const order = sort.by === head.dataset.sort ? (sort.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", order);
    }
  }

  #clicked(target) {
    const head = target.closest("th[data-sort] button");
    if (head) return this.actions.sort(head.closest("th").dataset.sort);
    const id = target.closest("tr[data-key]")?.dataset.key;
    if (!id) return;
    if (target.closest("[data-slot=stop]")) this.#stop(id, true);
    else if (target === slot(target.closest("tr"), "choose")) this.actions.select([id], target.checked);
  }

  #toggle(id) {
    const { state } = this.store;
    const row = this.#row(id);
    if (row && canStop(row, state, this.page.userName)) this.actions.select([id], !state.selected.has(id));
  }

  #chooseAll(on) {
    this.actions.select(this.#stoppable().map(({ id }) => id), on);
  }

  /** The row alone, or, by its key, what is chosen where anything is. */
  #stop(id, alone = false) {
    const { selected } = this.store.state;
    const chosen = alone ? [] : this.#stoppable().filter((row) => selected.has(row.id));
    const rows = chosen.length > 0 ? chosen : [this.#row(id)].filter(Boolean);
    document.dispatchEvent(new CustomEvent("studio-stop-runs", { detail: rows }));
  }

  #stoppable() {
    return this.#rows.filter((row) => canStop(row, this.store.state, this.page.userName));
  }

  #row(id) {
    return this.#rows.find((row) => row.id === id);
  }
}

customElements.define("studio-runs-table", StudioRunsTable);
