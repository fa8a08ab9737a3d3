"""An MCP server as a program, of the older protocol, written by hand: it can also do everything wrong.

    program.py LOG MODE

Every message that it receives is appended to LOG, one a line, and its process's id to LOG.pids. What it lists and how
it answers is MODE's.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

LOG, MODE = sys.argv[1:3]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": name, "description": f"To {name}.", "inputSchema": SCHEMA} for name in ("echo", "slow", "late", "die")
]
ODD = ["twice", "twice", "a b", "a_b", "x" * 90, "x" * 91, "dots.and/slashes", " ", "huge"]
PAGE = 100

waiting: list[Any] = []  # ids of calls that are answered when they are called off


def main() -> None:
    pids = [os.getpid()]
    if MODE == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pids.append(subprocess.Popen(["sleep", "600"]).pid)
    with open(f"{LOG}.pids", "a") as file:
        file.writelines(f"{pid}\n" for pid in pids)
    if MODE == "crash":
        sys.exit("the disk is on fire")
    if MODE == "greeting":
        print("Welcome!\n", flush=True)
    if MODE == "garbage":
        while True:
            print("no message at all")
    if MODE == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    for line in sys.stdin:
        message = json.loads(line)
        record(message)
        receive(message.get("method"), message.get("id"), message.get("params") or {})
    while MODE == "deaf":
        time.sleep(600)


def record(message: Any) -> None:
    with open(LOG, "a") as log:
        log.write(json.dumps(message) + "\n")


def receive(method: str, request: Any, params: dict[str, Any]) -> None:
    match method:
        case "initialize" if MODE != "mute":
            capabilities = {"tools": {"listChanged": True}}
            about = {"name": "test", "version": "1"}
            answer(request, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about})
        case "tools/list" if MODE != "mute-list":
            answer(request, listed(int(params.get("cursor") or 0)))
        case "tools/call":
            call(request, params["name"], params.get("arguments") or {})
        case "notifications/cancelled":
            if params["requestId"] in waiting:
                answer(params["requestId"], text("too late"))
        case "server/discover" if MODE not in ("mute", "mute-unknown"):
            error(request, -32601, "Method not found")


def listed(start: int) -> dict[str, Any]:
    match MODE:
        case "many":
            tools = [{**TOOLS[0], "name": f"tool_{n}"} for n in range(500)]
        case "odd":
            tools = [{**TOOLS[0], "name": name} for name in ODD]
            tools[-1] = {**tools[-1], "inputSchema": {**SCHEMA, "description": "x" * 70_000}}
        case "none":
            tools = []
        case _:
            tools = TOOLS
    more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(tools) else {}
    return {"tools": tools[start : start + PAGE], **more}


def call(request: Any, name: str, arguments: dict[str, Any]) -> None:
    match name:
        case "echo":
            answer(request, text(arguments.get("text", "")))
            if MODE == "growing":
                TOOLS.append({**TOOLS[0], "name": "grown"})
                send({"method": "notifications/tools/list_changed"})
        case "late":
            waiting.append(request)
        case "die":
            print(f"dying with {os.environ.get('TOKEN')}", file=sys.stderr, flush=True)
            os._exit(3)
        case "slow":
            pass
        case _:
            answer(request, {"content": [{"type": "text", "text": f"no tool {name}"}], "isError": True})


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def answer(request: Any, result: dict[str, Any]) -> None:
    send({"id": request, "result": result})


def error(request: Any, code: int, message: str) -> None:
    send({"id": request, "error": {"code": code, "message": message}})


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


main()
