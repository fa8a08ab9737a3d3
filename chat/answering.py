"""The work of one turn: load the model, read what it must know, and run the agent's loop. It writes no end.

What was ordered meanwhile is read before the first request and between steps, so that an order which nobody told this
worker of is obeyed all the same.
"""

import functools
import logging

from django.conf import settings

from chat.admission import Started
from chat.briefing import Briefing, brief
from chat.live import LiveTurn
from chat.toolbox import toolbox
from kernel import agent, conf, lanes
from kernel.abort import AbortReason
from kernel.llm import catalog, local
from kernel.llm.lengths import most_output_tokens
from kernel.mcp.models import McpServer, ServerConfig
from kernel.mcp.roster import Roster
from kernel.models import ExecutionRecord, Hold
from kernel.registry import Execution
from kernel.tools import Toolbox

logger = logging.getLogger(__name__)

# Reason, by, source, why.
Order = tuple[str, str, str, str]


async def answer(started: Started, execution: Execution, turn: LiveTurn, servers: Roster) -> str:
    """Answer the message, telling `turn` of all that happens; return the finish reason."""
    model_name = started.record.model
    model = await catalog.ready_model(model_name)
    briefing, tools, configs, order = await lanes.reads.run(_prepare, started)
    _obey(execution, order)
    if model_name != local.NAME:  # it takes none
        tools = await servers.add_to(tools, configs, briefing.tool_names)
    if missing := [name for name in briefing.tool_names or () if name not in tools]:
        logger.warning("A role names tools that are not there: %s", ", ".join(missing), extra={"action": "role"})
    answering = agent.Agent(
        model=model,
        model_name=model_name,
        history=briefing.history,
        system=lambda final: briefing.system(final, bool(len(tools))),
        limits=conf.limits(),
        tools=tools,
        max_steps=briefing.max_steps,
        tool_timeout_s=conf.tool_timeout_s(),
        checkpoint=functools.partial(_checkpoint, started.record, execution),
        allowance=briefing.allowance,
        price=functools.partial(catalog.price, model_name),
        most_tokens=most_output_tokens(model_name),
    )
    return await agent.run(answering, execution, turn.tell)


async def _checkpoint(record: ExecutionRecord, execution: Execution) -> None:
    """Between steps: obey what nobody has told this worker of yet."""
    _obey(execution, await lanes.reads.run(_order_for, record))


def _prepare(started: Started) -> tuple[Briefing, Toolbox, list[ServerConfig], Order | None]:
    """All that a turn needs to know before its first request, in one trip. Raises `ToolDefinitionError`."""
    briefing = brief(started)
    tools = toolbox()
    chosen = briefing.tool_names is not None or settings.STUDIO_TOOLS_CHOSEN
    if started.record.model == local.NAME or not (chosen or catalog.calls_tools(started.record.model)):
        tools = Toolbox()
    return briefing, tools, McpServer.objects.configs(), _order_for(started.record)


def _order_for(record: ExecutionRecord) -> Order | None:
    """An order to abort this execution, or a hold over it, as the ledger has it now."""
    order = (
        ExecutionRecord.objects.filter(pk=record.pk)
        .exclude(intent="")
        .values_list("intent", "requested_by", "source", "why")
        .first()
    )
    if order is None and (hold := Hold.objects.over(user_id=record.user_id, model=record.model).first()):
        return AbortReason.PANIC_STOP, hold.by, "hold", hold.reason
    return order


def _obey(execution: Execution, order: Order | None) -> None:
    if order is not None:
        reason, by, source, why = order
        execution.controller.abort(reason, by=by, source=source, why=why)
