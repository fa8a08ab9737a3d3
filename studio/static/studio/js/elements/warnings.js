/**
 * `<studio-warnings>`: what goes wrong beside the conversation without breaking it; said above it, until it is closed.
 */
import { clone, reconcile, setText, slot } from "#studio/dom";
import { StudioElement } from "#studio/elements/studio-element";
import { openConversation } from "#studio/reduce";
import { gettext } from "#studio/text";

/** For those who run the studio, what to do; for the others, that it is not theirs to do. */
const WARNINGS = {
  transcript_failed: (isOperator) =>
    isOperator
      ? gettext(
          "The transcript file could not be written. The conversation itself is safe in the database. Free disk space or check STUDIO_TRANSCRIPT_DIR.",
        )
      : gettext(
          "The transcript file could not be written. The conversation itself is safe in the database; an operator can mend it.",
        ),
};

class StudioWarnings extends StudioElement {
  listen() {
    this.addEventListener("click", ({ target }) => {
      const close = target.closest("[data-slot=close]");
      if (close) this.actions.closeWarning(close.closest("[data-key]").dataset.key);
    });
  }

  render(state) {
    const warnings = openConversation(state)?.warnings ?? [];
    if (!this.changed(warnings, state.closedWarnings, state.options)) return;
    const isOperator = state.options?.permissions.panic ?? false;
    reconcile(this.find("list"), warnings.filter((warning) => !state.closedWarnings.includes(warning)), {
      key: (warning) => warning,
      create: () => clone("warning-item"),
      update: (item, warning) => setText(slot(item, "text"), WARNINGS[warning]?.(isOperator) ?? warning),
    });
  }
}

customElements.define("studio-warnings", StudioWarnings);
