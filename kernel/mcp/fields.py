"""Form fields of several lines. What may be a secret is taken and never shown again: its value is a mask.

A value that comes back as the mask is kept as it was; any other replaces it; a line that is missing is removed.
"""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

MASK = "••••••••"


class LinesField(forms.Field):
    """A list of strings, one on each line."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)


class SecretsField(forms.Field):
    """Names and values, one pair on each line. The form gives it `stored`, the pairs that are there already."""

    widget = forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off"})

    def __init__(self, *, separator: str, **options: Any):
        super().__init__(**options)
        self._separator = separator
        self.stored: dict[str, str] = {}

    def prepare_value(self, value: Any) -> Any:
        """Stored pairs, masked. What was typed and refused is masked too: a page with an error is a page."""
        names = value if isinstance(value, dict) else [name for name, _value in self._pairs(value)]
        return "\n".join(f"{name}{self._separator}{MASK if self._is_stored(name, value) else ''}" for name in names)

    def to_python(self, value: Any) -> dict[str, str]:
        pairs = {}
        for name, given in self._pairs(value):
            if not name or not given:  # an empty one would be a secret that was masked and forgotten
                raise ValidationError(_("Write each line as name%svalue.") % self._separator)
            if given == MASK and name not in self.stored:
                raise ValidationError(_("There is no stored value of %r: write it.") % name)
            pairs[name] = self.stored[name] if given == MASK else given
        return pairs

    def has_changed(self, initial: Any, data: Any) -> bool:
        return any(given != MASK for _name, given in self._pairs(data)) or set(initial or {}) != {
            name for name, _given in self._pairs(data)
        }

    def _pairs(self, text: Any) -> list[tuple[str, str | None]]:
        lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
        split = [line.partition(self._separator.strip()) for line in lines]
        return [(name.strip(), value.strip() if found else None) for name, found, value in split]

    def _is_stored(self, name: str, value: Any) -> bool:
        return isinstance(value, dict) or dict(self._pairs(value)).get(name) == MASK
