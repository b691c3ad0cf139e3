"""A backend goes down: after three failures it is left alone for a second, and then tried again.

Two arms answer seven queries. `titles` is always there. `remote` is down for the first five, and
each call to it takes 0.1 seconds to fail; so long as it is skipped, answers come at once. The sixth
query waits until the cool-down is over. It finds `remote` well again, so the seventh asks it too.
At the end the pipeline says how both arms did.

Run it with `python examples/breaker.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from rrf_stream import Breaker, Pipeline

calls: Counter[str] = Counter()


async def titles(query: str) -> list[str]:
    """Answer at once."""
    return [f"{query} in titles"]


async def remote(query: str) -> list[str]:
    """Answer after 0.1 seconds, or fail then, as long as the backend is down."""
    calls[query] += 1
    await asyncio.sleep(0.1)
    if query in {"one", "two", "three", "four", "five"}:
        raise ConnectionError("connection refused")
    return [f"{query} at remote"]


async def main() -> None:
    """Print how each query went, and at the end how each arm did."""
    breaker = Breaker(failures=3, cooldown=1.0, jitter=0)
    pipeline = Pipeline({"titles": titles, "remote": remote}, breaker={"remote": breaker}, timeout=5.0)
    for query in ("one", "two", "three", "four", "five", "six", "seven"):
        if query == "six":
            wait = pipeline.stats()["remote"].retry_after or 0
            await asyncio.sleep(wait + 0.01)
            print(f"       waited {wait:.1f} s; the breaker is {pipeline.stats()['remote'].breaker}")
        started = time.perf_counter()
        answer = await pipeline.search(query)
        seconds = time.perf_counter() - started
        remote_arm = answer.coverage["remote"]
        hits = len(answer.hits)
        print(f"{query:<6} called {calls[query]}, {hits} hits in {seconds:.1f} s", end=", remote ")
        if remote_arm.retry_after is None:
            print(remote_arm.status)
        else:
            print(f"{remote_arm.status}, tried again in {remote_arm.retry_after:.1f} s")

    print()
    for arm in pipeline.stats().values():
        print(f"{arm.name}: of {arm.queries} ", end="")
        print(f"answered {arm.answered}, failed {arm.failed}, skipped {arm.skipped}; breaker {arm.breaker}")
        print(f"  the first hit usually takes {arm.first_hit.p50:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
