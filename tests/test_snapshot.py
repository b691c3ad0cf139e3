"""What users hold can be shown, sent and compared, whatever the items are."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from rrf_stream import Accumulator, ArmStatus, Hit, fuse
from rrf_stream.errors import ArmError, DegradedError, MissingExtraError


class Mute:
    """An item whose text is an error."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@dataclass
class Text:
    """An item with parts."""

    title: str
    size: float


def as_json(item: Any) -> Any:
    """Return what `to_dict` makes of an item, through JSON and back."""
    accumulator = Accumulator({"a": 1})
    accumulator.add("a", [Hit("x", item=item)])
    shown = json.loads(json.dumps(accumulator.snapshot().to_dict(), allow_nan=False))
    return shown["hits"][0]["item"]


@pytest.mark.parametrize(
    ("item", "plain"),
    [
        ({"n": 1, 2: (3, 4.5)}, {"n": 1, "2": [3, 4.5]}),
        (Text("t", float("inf")), {"title": "t", "size": None}),
        (ArmStatus.IDLE, "idle"),
        (b"raw", "b'raw'"),
        (True, True),
    ],
)
def test_items_become_plain_json(item: Any, plain: Any) -> None:
    """Mappings, sequences and dataclasses are converted by their parts, the rest by their text."""
    assert as_json(item) == plain


def test_no_item_breaks_to_dict() -> None:
    """Items that hold themselves, go very deep or have no text are shown as far as they go."""
    loop: list[Any] = []
    loop += [loop, loop]
    assert as_json(loop) == ["[[...], [...]]", "[[...], [...]]"]
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    assert isinstance(as_json(deep), list)
    assert "Mute object" in as_json(Mute())


@pytest.mark.parametrize("send", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_snapshots_can_be_sent(send: Any) -> None:
    """A snapshot that was copied or pickled says the same: hits, ranks, coverage."""
    accumulator = Accumulator({"a": 1, "b": 0.5})
    accumulator.add("a", ["x", Hit("y", item={"n": 1})])
    accumulator.add("b", ["y"])
    snapshot = accumulator.snapshot()
    sent = send(snapshot)
    assert sent == snapshot
    assert sent.hits[0].ranks == {"a": 2, "b": 1}


@pytest.mark.parametrize("send", [copy.copy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_errors_can_be_sent(send: Any) -> None:
    """Errors keep what they carry when they are copied or pickled."""
    accumulator = Accumulator({"a": 1})
    accumulator.close("a", ArmStatus.TIMED_OUT)
    with pytest.raises(DegradedError) as caught:
        accumulator.snapshot().raise_for_coverage()
    sent = send(caught.value)
    assert (str(sent), sent.coverage) == (str(caught.value), caught.value.coverage)
    assert send(ArmError("failed", arm="a")).arm == "a"
    missing = send(MissingExtraError("apsw", extra="sqlite"))
    assert (missing.extra, missing.name, "rrf-stream[sqlite]" in str(missing)) == ("sqlite", "apsw", True)


def test_reports_show_weights_as_given() -> None:
    """Equal weights of different types, in fusions that share their tables, are each reported as given."""
    fuse([["x"]], weights=[1.0])
    given: dict[str, float] = {"one": 1, "two": 1.0, "three": True}
    for name, weight in given.items():
        report = Accumulator({"a": weight}).snapshot().coverage["a"]
        assert type(report.weight) is type(weight), name
