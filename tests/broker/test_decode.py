"""From bytes to requests: what is refused, for every JSON text there is."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.wire.tasks import SubmitRequest
from leadsman_broker.http.decode import decode
from leadsman_broker.http.problems import ProblemError

DIGITS = st.text("0123456789", min_size=1, max_size=420)


@st.composite
def numbers(draw):
    """JSON numbers of every size and form."""
    whole = draw(DIGITS).lstrip("0") or "0"
    sign = draw(st.sampled_from(["", "-"]))
    fraction = draw(st.just("") | DIGITS.map(lambda digits: "." + digits))
    power = draw(st.integers(0, 420).map(str))
    zeros = "0" * draw(st.integers(0, 3))
    mark, plus = draw(st.sampled_from("eE")), draw(st.sampled_from(["", "+", "-"]))
    exponent = draw(st.sampled_from(["", mark + plus + zeros + power]))
    return sign + whole + fraction + exponent


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def outcome(content):
    """The request, or why there is none."""
    try:
        return decode(SubmitRequest, content)
    except ProblemError as problem:
        return problem


def body(payload: str) -> bytes:
    return ('{"tasks":[{"capability":"work","payload":' + payload + "}]}").encode()


@given(numbers())
def test_a_number_is_refused_exactly_when_a_double_cannot_hold_it(text):
    found = outcome(body(text))

    if math.isinf(float(text)):
        assert (found.status, found.code) == (400, "invalid_json")
    else:
        assert float(found.tasks[0].payload) == float(text)


@given(VALUES, st.booleans())
def test_a_value_comes_through_as_it_was(value, escaped):
    text = json.dumps(value, ensure_ascii=escaped)

    assert decode(SubmitRequest, body(text)).tasks[0].payload == value


@given(st.dictionaries(st.text("abc", max_size=2), VALUES, min_size=1, max_size=3), st.data())
def test_a_key_that_occurs_twice_anywhere_is_refused(found, data):
    twice = data.draw(st.sampled_from(sorted(found)))
    pairs = [*found.items(), (twice, None)]
    text = "{" + ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in pairs) + "}"
    nested = data.draw(st.sampled_from(["{}", "[{}]", '{{"a":[{}]}}']))

    with pytest.raises(ProblemError, match="twice"):
        decode(SubmitRequest, body(nested.format(text) if nested != "{}" else text))


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_or_read_and_never_fail(content):
    for whole in (content, body('"') + content, content + body("1")):
        found = outcome(whole)
        if isinstance(found, ProblemError):
            assert found.status in {400, 422}
            assert found.body()
