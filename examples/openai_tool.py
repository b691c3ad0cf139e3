"""A tool of an agent, in the message format of OpenAI: the answer is on time, and says what it lacks.

The model asks for a tool with JSON that it has written itself, so the arguments are checked, and
what is wrong with them goes back to it as the tool's answer. The search has a budget of half a second,
and ends with the turn at the latest: `archive` does not answer in time and `wiki` is down, which the
tool tells in words, as the model cannot see it. Calls of one message run at the same time.

There is no model here. `ScriptedModel` stands for `client.chat.completions.create`, and writes what
a model might. With a client, `choices[0].message.model_dump(exclude_none=True)` is what its method
returns here, and the loop is the same.

Run it with `python examples/openai_tool.py`.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from rrf_stream import ArmReport, ArmStatus, fuse_arms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

Message: TypeAlias = dict[str, Any]

BUDGET = 0.5
"""Seconds that one search may take."""
MOST_HITS = 10
MOST_ROUNDS = 5

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "search_documents",
        "description": "Search the documentation. Returns the best hits, and which sources are missing.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to search for, in a few words."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_HITS,
                    "description": "How many hits.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}

# --- the arms ---------------------------------------------------------------------------------------------


async def titles(query: str) -> list[str]:
    """Answer at once."""
    return [f"{query}: a tutorial", f"{query}: reference"]


async def vectors(query: str) -> AsyncIterator[str]:
    """Take 0.02 seconds for each hit."""
    for id_ in (f"{query}: reference", f"{query}: questions", f"{query}: a tutorial"):
        await asyncio.sleep(0.02)
        yield id_


async def archive(query: str) -> AsyncIterator[str]:
    """Have one hit, and then look for more for ever."""
    yield f"{query}: a thread from the mailing list"
    await asyncio.Event().wait()


async def wiki(query: str) -> list[str]:
    """Be down."""
    raise ConnectionError(f"no route to the wiki for {query!r}")


# --- the tool ---------------------------------------------------------------------------------------------


async def search_documents(query: str, limit: int, *, turn_ends: float) -> str:
    """Return the best hits, and what was not searched, in words that a model understands.

    Args:
        query: What to search for.
        limit: How many hits.
        turn_ends: When the agent must be done, on the clock of the event loop.
    """
    arms = {
        "titles": titles(query),
        "vectors": vectors(query),
        "archive": archive(query),
        "wiki": wiki(query),
    }
    best = await fuse_arms(arms, top_k=limit, timeout=BUDGET, deadline=turn_ends)
    lines = [f"{hit.rank}. {hit.id} (found by {', '.join(hit.ranks)})" for hit in best.hits]
    lines = lines or ["Nothing was found."]
    lines += [f"Missing: {in_words(arm)}" for arm in best.coverage.arms if arm.status.is_short]
    return "\n".join(lines)


def in_words(arm: ArmReport) -> str:
    """Say what of an arm is missing, and why."""
    if arm.status == ArmStatus.FAILED:
        return f"{arm.name} failed; hits before that: {arm.received}."
    return f"{arm.name} was not read to its end in time; hits by then: {arm.received}."


def arguments_of(function: Message) -> tuple[str, int]:
    """Return the query and the limit that the model wrote.

    Raises:
        ValueError: There is no such tool, or what it gets is not what its schema asks for.
    """
    if function["name"] != TOOL["function"]["name"]:
        raise ValueError(f"there is no tool {function['name']!r}")
    given = json.loads(function["arguments"])  # its error is a ValueError
    if not isinstance(given, dict):
        raise ValueError("the arguments must be an object")  # noqa: TRY004 - for the model, one kind of error
    if unknown := given.keys() - {"query", "limit"}:
        raise ValueError(f"there is no argument {', '.join(sorted(unknown))}")
    query, limit = given.get("query"), given.get("limit", 5)
    if not isinstance(query, str) or not query.strip():
        raise ValueError("query must be a text that is not empty")
    if type(limit) is not int or not 1 <= limit <= MOST_HITS:  # True would be a whole number, too
        raise ValueError(f"limit must be a whole number from 1 to {MOST_HITS}, not {limit!r}")
    return query, limit


async def call_tool(call: Message, turn_ends: float) -> Message:
    """Do what a tool call asks for, and return the message that answers it."""
    try:
        query, limit = arguments_of(call["function"])
    except ValueError as error:
        content = f"Error: {error}"
    else:
        content = await search_documents(query, limit, turn_ends=turn_ends)
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


# --- the agent --------------------------------------------------------------------------------------------


class ScriptedModel:
    """Stands for a model: asks for two searches, one of them wrong, asks again, and then answers."""

    async def complete(self, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
        """Return the assistant's next message, as `choices[0].message` of a chat completion."""
        name = tools[0]["function"]["name"]
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if not results:
            wanted = [{"query": "timeouts", "limit": 3}, {"query": "sockets", "limit": 50}]
        elif any(result.startswith("Error") for result in results) and len(results) == 2:
            wanted = [{"query": "sockets", "limit": 2}]
        else:
            best = results[0].splitlines()[0].removeprefix("1. ")
            caveat = "some sources did not answer" if "Missing:" in results[0] else "all sources answered"
            return {"role": "assistant", "content": f"Read {best}; {caveat}."}
        calls = [
            {
                "id": f"call_{len(results) + number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, arguments in enumerate(wanted)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}


async def converse(model: ScriptedModel, messages: list[Message], *, seconds: float) -> None:
    """Let the model call tools until it answers, and add every message to the list.

    Raises:
        RuntimeError: It goes on calling tools.
    """
    turn_ends = asyncio.get_running_loop().time() + seconds
    for _ in range(MOST_ROUNDS):
        message = await model.complete(messages, [TOOL])
        messages.append(message)
        calls = message.get("tool_calls")
        if not calls:
            return
        messages += await asyncio.gather(*(call_tool(call, turn_ends) for call in calls))
    raise RuntimeError(f"no answer after {MOST_ROUNDS} rounds of tool calls")


async def main() -> None:
    """Print a conversation, and how long it took."""
    messages: list[Message] = [
        {"role": "system", "content": "Search before you answer, and say if sources are missing."},
        {"role": "user", "content": "What should I read on timeouts and sockets?"},
    ]
    started = time.perf_counter()
    await converse(ScriptedModel(), messages, seconds=5.0)
    for message in messages[1:]:
        for call in message.get("tool_calls", ()):
            print(
                f"assistant calls {call['function']['name']} {call['function']['arguments']} as {call['id']}"
            )
        if message.get("content") is not None:
            answers = f" for {message['tool_call_id']}" if message["role"] == "tool" else ""
            print(f"{message['role']}{answers}: " + message["content"].replace("\n", "\n    "))
    print(f"\n{time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
