/**
 * `<studio-runs-filters>`: which runs are shown. What it offers is what is there. On a narrow page it lies behind a button.
 */
import { modelName } from "#studio/choice";
import { clone, reconcile } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { ALL } from "#studio/runs";
import { choicesFor, isFiltered } from "#studio/runs-view";

const OFFERED = ["user", "model", "worker"];

class StudioRunsFilters extends StudioElement {
  listen() {
    this.find("text").addEventListener("input", ({ target }) => this.actions.filter({ text: target.value }));
    for (const field of [...OFFERED, "state"]) {
      this.find(field).addEventListener("change", ({ target }) => this.actions.filter({ [field]: target.value }));
    }
    this.find("sort").addEventListener("change", ({ target }) => {
      const [by, down] = target.value.split(" ");
      this.actions.sort(by, down === "down");
    });
    this.find("clear").addEventListener("click", () => this.actions.filter(ALL));
    this.find("toggle").addEventListener("click", ({ currentTarget }) => {
      currentTarget.setAttribute("aria-expanded", String(currentTarget.ariaExpanded !== "true"));
    });
    this.addEventListener("submit", (event) => event.preventDefault());
  }

  render(state) {
    const { rows, filters, sort, options } = state;
    if (!this.changed(rows, filters, sort, options)) return;
    for (const field of OFFERED) this.#offer(field, choicesFor(field, state), options);
    if (this.find("text").value !== filters.text) this.find("text").value = filters.text;
    this.find("state").value = filters.state;
    this.find("sort").value = `${sort.by} ${sort.down ? "down" : "up"}`;
    this.find("clear").hidden = !isFiltered(filters);
  }

  /** The first choice, which is Django's, is all of them. */
  #offer(field, values, options) {
    const select = this.find(field);
    const name = (value) => (field === "model" ? modelName(value, options) : value);
    const [all] = select.options;
    all.dataset.key = "";
    reconcile(select, [null, ...values], {
      key: (value) => value ?? "",
      create: () => clone("choice"),
      update: (option, value) => {
        if (value !== null) Object.assign(option, { value, textContent: name(value) });
      },
    });
    select.value = this.store.state.filters[field];
  }
}

customElements.define("studio-runs-filters", StudioRunsFilters);
