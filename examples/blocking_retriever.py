"""A client that blocks, read in a thread: the answer is on time, also when one of its calls is stuck.

`database` stands for a client without `async`: each call keeps its thread for 0.1 seconds. As a
retriever it needs nothing special, since what is not asynchronous runs in a thread. `catalogue` is
a coroutine function that blocks nevertheless; nobody can see that from outside, so `in_thread` says
it. In the second search the database does not come back: the answer takes the timeout, and no more.
A call that is stuck cannot be stopped. It keeps its thread, but not the program, from ending.

Run it with `python examples/blocking_retriever.py`.
"""

from __future__ import annotations

import asyncio
import threading
import time

from rrf_stream import Arm, Pipeline, drain, in_thread

connection = threading.Event()
"""Set while the database can be reached."""


def database(query: str) -> list[str]:
    """Answer after 0.1 seconds, if there is a connection; wait for it if not."""
    connection.wait()
    time.sleep(0.1)
    return [f"{query} in depth", f"{query} at a glance"]


async def catalogue(query: str) -> list[str]:
    """Look asynchronous, and block the event loop for 0.2 seconds."""
    time.sleep(0.2)  # noqa: ASYNC251 - it is what goes wrong
    return [f"{query} at a glance", f"{query} for children"]


async def titles(query: str) -> list[str]:
    """Answer at once."""
    return [f"a history of {query}", f"{query} at a glance"]


async def main() -> None:
    """Search with and without a connection, and say what each arm has given."""
    arms = [Arm("titles", titles), Arm("database", database), Arm("catalogue", in_thread(catalogue))]
    hybrid = Pipeline(arms, top_k=3, timeout=0.5)
    for query, connected in (("beetles", True), ("birds", False)):
        (connection.set if connected else connection.clear)()
        started = time.perf_counter()
        best = await hybrid.search(query)
        print(f"{query}: {time.perf_counter() - started:.1f} s, {best.outcome}")
        print("  " + ", ".join(best.ids))
        print("  " + ", ".join(f"{arm.name} {arm.status}" for arm in best.coverage.arms))

    print("still running:", *await drain(timeout=0.1))


if __name__ == "__main__":
    asyncio.run(main())
