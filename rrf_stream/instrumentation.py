"""For telemetry of any kind: be told of every fusion, and of what happens to its arms.

`rrf_stream.integrations.otel` is made of this and nothing else. Where nobody is added, a fusion looks
once, at its start, and tells nobody of anything::

    class Counting(Observer):
        def fusion_started(self, fusion):
            statistics["fusions"] += 1

    add_observer(Counting())
"""

from __future__ import annotations

from rrf_stream._observers import FusionObserver, FusionStart, Observer, add_observer, remove_observer

__all__ = ["FusionObserver", "FusionStart", "Observer", "add_observer", "remove_observer"]
