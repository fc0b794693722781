"""What may travel as JSON, and how the rest is refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.encoding import MAX_DEPTH, encode, normalised
from leadsman.errors import InvalidValueError

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_whatever_is_json_comes_back_as_it_was(value):
    assert json.loads(encode(value, "it")) == value
    assert normalised(value, "it") == value


@given(values, st.integers(0, 200))
def test_the_limit_counts_utf8_bytes(value, limit):
    size = len(encode(value, "it").encode())
    if size <= limit:
        encode(value, "it", limit)
    else:
        with pytest.raises(InvalidValueError, match=f"has {size} bytes and may have {limit}"):
            encode(value, "it", limit)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "it is not JSON"),
        ({"a": [1, math.inf]}, r"at \.a\[1\]"),
        ({"a": {"b": object()}}, r"at \.a\.b: Object of type object"),
        ({1, 2}, "Object of type set is not JSON serializable"),
        (b"bytes", "Object of type bytes"),
        ({(1, 2): 3}, "keys must be str"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ("a\x00b", "NUL character"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(value, words):
    with pytest.raises(InvalidValueError, match=words):
        encode(value, "it")


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_is_bounded():
    encode(nested(MAX_DEPTH), "it")
    with pytest.raises(InvalidValueError, match="nested deeper than 100 levels"):
        encode(nested(MAX_DEPTH + 1), "it")


def test_python_s_own_limit_on_nesting_is_told_the_same_way():
    with pytest.raises(InvalidValueError, match="nested"):
        encode(nested(100_000), "it")


def test_a_thing_that_holds_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(InvalidValueError, match="Circular reference"):
        encode(value, "it")


def test_brackets_in_text_are_not_nesting():
    encode(["[" * 500, '"{"' * 500, "\\"], "it")


def test_a_backslash_before_u0000_is_text_not_nul():
    assert json.loads(encode("\\u0000", "it")) == "\\u0000"


def test_tuples_arrive_as_lists_and_keys_as_strings():
    assert normalised({1: (2, 3)}, "it") == {"1": [2, 3]}
