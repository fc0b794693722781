"""Preparing tasks to be sent any number of times without doubling one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman import TaskSubmit
from leadsman.client.submission import MAX_BATCH_BYTES, batches, body, checked, make_task, prepare
from leadsman.errors import InvalidValueError
from leadsman.wire.base import MAX_BATCH
from leadsman.wire.tasks import SubmitRequest

DEFAULTS = {
    "name": "default",
    "key": None,
    "tenant": "",
    "task_class": "background",
    "priority": None,
    "delay_seconds": 0.0,
    "ttl_seconds": None,
    "max_attempts": None,
}


def test_every_task_gets_a_key_of_its_own():
    task = TaskSubmit(capability="llm")
    first, second = prepare([task, task])
    assert first.task.idempotency_key != second.task.idempotency_key
    assert first.own_key


def test_a_given_key_is_kept():
    (prepared,) = prepare([TaskSubmit(capability="llm", idempotency_key="k")])
    assert prepared.task.idempotency_key == "k"
    assert not prepared.own_key


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_the_body_is_the_request_that_was_meant(payloads):
    tasks = [TaskSubmit(capability="llm", payload={"n": n, "text": "ü"}, priority=n, tenant="t") for n in payloads]
    prepared = prepare(tasks)
    sent = SubmitRequest.model_validate_json(body(prepared))
    assert sent.tasks == [item.task for item in prepared]


def test_batches_hold_what_the_broker_takes():
    small = prepare([TaskSubmit(capability="llm")] * (MAX_BATCH * 2 + 1))
    assert [len(batch) for batch in batches(small)] == [MAX_BATCH, MAX_BATCH, 1]
    large = prepare([TaskSubmit(capability="llm", payload="x" * 1_500_000)] * 5)
    sizes = [len(body(batch)) for batch in batches(large)]
    assert len(sizes) == 3
    assert max(sizes) < MAX_BATCH_BYTES + 1000


def test_a_single_task_above_the_batch_limit_still_goes_alone():
    huge = prepare([TaskSubmit(capability="llm", payload="x" * (MAX_BATCH_BYTES + 1))] * 2)
    assert [len(batch) for batch in batches(huge)] == [1, 1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"priority": 10}, "the task: priority: Input should be less than or equal to 9"),
        ({"name": "a b"}, "the task: name: must be letters"),
        ({"delay_seconds": -1}, "the task: delay_seconds: Input should be greater than or equal to 0"),
        ({"task_class": "urgent"}, "the task: class: Input should be 'interactive' or 'background'"),
        ({"key": ""}, "the task: idempotency_key"),
    ],
)
def test_a_wrong_field_is_named(changed, words):
    with pytest.raises(InvalidValueError, match=words):
        make_task("llm", None, **(DEFAULTS | changed))


def test_a_wrong_capability_is_told_as_kubernetes_would():
    with pytest.raises(InvalidValueError, match="capability: must be lower-case letters"):
        make_task("LLM", None, **DEFAULTS)


def test_an_unknown_field_is_named():
    with pytest.raises(InvalidValueError, match="line 3: paylod: Extra inputs are not permitted"):
        checked({"capability": "llm", "paylod": 1}, "line 3")


def test_a_payload_is_checked_before_anything_is_sent():
    with pytest.raises(InvalidValueError, match=r"the payload is not JSON at \.x"):
        make_task("llm", {"x": {1, 2}}, **DEFAULTS)
    with pytest.raises(InvalidValueError, match=r"task 1 is not JSON at \.payload"):
        prepare([TaskSubmit(capability="llm"), TaskSubmit(capability="llm", payload=float("nan"))])


def test_what_is_default_is_not_sent():
    (prepared,) = prepare([TaskSubmit(capability="llm", idempotency_key="k")])
    assert json.loads(prepared.encoded) == {"capability": "llm", "idempotency_key": "k"}
