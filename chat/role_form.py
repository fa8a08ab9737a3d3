"""The form of a role in the admin: what it refuses, a turn would stumble over."""

from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chat.models import AgentRole
from chat.toolbox import toolbox, unknown
from kernel.llm import catalog
from kernel.llm.errors import UNKNOWN
from kernel.llm.preflight import complaint
from kernel.mcp.fields import LinesField
from kernel.tools import ToolDefinitionError

SERVERS = gettext_lazy("Empty: the server's (%(setting)s). A value holds instead of it, lower or higher.")


class AgentRoleForm(forms.ModelForm):
    """A role, with its tools one on each line."""

    tools = LinesField(required=False, label=gettext_lazy("Tools"))

    class Meta:
        model = AgentRole
        fields = ("name", "instructions", "model", "tools", *AgentRole.LIMITS)
        labels = {
            "name": gettext_lazy("Name"),
            "instructions": gettext_lazy("Instructions"),
            "model": gettext_lazy("Model"),
            "max_steps": gettext_lazy("Steps"),
            "max_output_tokens": gettext_lazy("Output tokens"),
            "max_cost_usd": gettext_lazy("Cost (USD)"),
            "max_repeated_calls": gettext_lazy("Same call in a row"),
        }
        help_texts = {
            "name": gettext_lazy("People choose the role by it, and the agent is told that it is its name."),
            "instructions": gettext_lazy(
                "What the agent is to do, and how. They stand in its system prompt, between the rules that always hold."
            ),
        }

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for name in self.fields:  # of someone who may only look there are none
            if name in AgentRole.LIMITS:
                self.fields[name].help_text = SERVERS % {"setting": AgentRole.LIMITS[name]}
        if "model" in self.fields:
            self.fields["model"].help_text = _model_help()
        if "tools" in self.fields:
            self.fields["tools"].help_text = _tools_help()

    def clean_tools(self) -> list[str] | None:
        """Names of tools that are there, or that the role had before: a role may outlive a tool."""
        names = list(dict.fromkeys(self.cleaned_data["tools"]))
        try:
            strange = [name for name in unknown(names) if name not in (self.instance.tools or [])]
        except ToolDefinitionError as error:
            raise ValidationError(error.message) from error
        if strange:
            raise ValidationError(_("There is no such tool: %(names)s.") % {"names": ", ".join(strange)})
        return names or None

    def clean_model(self) -> str:
        """A model that is offered here, or a string by which a provider is found."""
        model = self.cleaned_data["model"].strip()
        if not model or model in _offered():
            return model
        if async_to_sync(complaint)(model) == UNKNOWN.format(model=model):
            raise ValidationError(
                _("No provider is known for %(model)s. Write provider/model, as in openai/gpt-5.4-mini.")
                % {"model": model}
            )
        return model


def _offered() -> list[str]:
    return [choice.id for choice in catalog.available_models()]


def _model_help() -> str:
    text = _("It answers unless a message names another. Empty: the session's model. Offered here: %(models)s.")
    return text % {"models": ", ".join(_offered())}


def _tools_help() -> str:
    try:
        names = ", ".join(tool.name for tool in toolbox())
    except ToolDefinitionError as error:
        return error.message
    return _(
        "One name on each line. Empty: every tool. There are %(names)s; those of an MCP server are server__tool."
    ) % {"names": names or "–"}
