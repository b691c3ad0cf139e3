"""What the words on the command line mean."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrf_stream.cli._options import ARMS, Until, arm_weights, seconds, settle_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("300ms", 300 / 1000),
        ("0.3s", 0.3),
        ("2s", 2.0),
        ("2", 2.0),
        ("0.25", 0.25),
        (".5s", 0.5),
        ("1.s", 1.0),
        (" 10 ms ", 10 / 1000),
        ("0.5ms", 0.5 / 1000),
    ],
)
def test_a_duration_has_milliseconds_seconds_or_no_unit(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "soon", "ms", "3m", "3 min", "1e3", "-1s", "+1s", "1,5s", "nan", "inf", "1s2", "٣s", "0x1s", "1 2s"],
)  # fmt: skip
def test_other_words_are_no_duration(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is no duration: write 300ms, 0\.3s, 2s, or seconds as a plain number"
    ):
        seconds(text)


@pytest.mark.parametrize("text", ["0", "0ms", "0.000s", "9" * 400])
def test_a_timeout_is_more_than_nothing_and_less_than_forever(text: str) -> None:
    with pytest.raises(ValueError, match="must be more than 0 and finite"):
        seconds(text)


@given(milliseconds=st.integers(1, 10**9))
def test_units_agree(milliseconds: int) -> None:
    assert seconds(f"{milliseconds}ms") == seconds(f"{milliseconds / 1000!r}") == milliseconds / 1000


@pytest.mark.parametrize(
    ("choices", "weights"),
    [
        ([], {"lexical": 1, "dense": 1, "graph": 1}),
        (["dense=0.5"], {"lexical": 1, "dense": 0.5, "graph": 1}),
        (["dense=0"], {"lexical": 1, "graph": 1}),
        (["dense"], {"dense": 1}),
        (["graph", "lexical"], {"lexical": 1, "graph": 1}),
        (["dense", "lexical=2"], {"lexical": 2, "dense": 1}),
        (["dense=1e-3", "graph=3"], {"lexical": 1, "dense": 0.001, "graph": 3}),
    ],
)
def test_a_name_selects_and_a_weight_weighs(choices: list[str], weights: dict[str, float]) -> None:
    assert arm_weights(choices) == weights
    assert list(arm_weights(choices)) == [name for name in ARMS if name in weights], "always in one order"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (["vector"], "'vector' is no arm of an index: there are lexical, dense, graph"),
        ([""], "'' is no arm of an index: there are lexical, dense, graph"),
        (["Dense"], "'Dense' is no arm of an index: there are lexical, dense, graph"),
        (["dense", "dense=2"], "arm 'dense' is given twice"),
        (["dense="], "the weight of 'dense' must be a number, 0 or more, not ''"),
        (["dense=x"], "the weight of 'dense' must be a number, 0 or more, not 'x'"),
        (["dense=-1"], "the weight of 'dense' must be a number, 0 or more, not '-1'"),
        (["dense=nan"], "the weight of 'dense' must be a number, 0 or more, not 'nan'"),
        (["dense=inf"], "the weight of 'dense' must be a number, 0 or more, not 'inf'"),
        (["dense=1=2"], "the weight of 'dense' must be a number, 0 or more, not '1=2'"),
        (["dense=0", "lexical=0", "graph=0"], "every arm has weight 0, so there is nobody to ask"),
        (["dense", "dense=0"], "arm 'dense' is given twice"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(choices: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        arm_weights(choices)


@given(weight=st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_a_weight_arrives_as_it_is_written(weight: float) -> None:
    assert arm_weights([f"graph={weight!r}"])["graph"] == weight
    assert math.isfinite(weight)


@pytest.mark.parametrize(
    ("until", "settle", "enough"),
    [
        ("complete", None, None),
        ("settled", None, 10),
        ("settled", 1, 1),
        ("settled", 10, 10),
    ],
)
def test_as_many_must_be_settled_as_matter(until: str, settle: int | None, enough: int | None) -> None:
    assert settle_of(Until(until), settle, 10) == enough


@pytest.mark.parametrize(
    ("until", "settle", "message"),
    [
        ("complete", 3, "it needs --until settled"),
        ("settled", 11, "only 10 hits are shown (--top-k), so it must be 10 or less"),
    ],
)
def test_what_cannot_be_settled_is_refused(until: str, settle: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        settle_of(Until(until), settle, 10)
