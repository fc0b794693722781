"""How a handler's end is told to the broker."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman import Dead, RateLimited, Release, Retry, TaskCancelled
from leadsman.worker.holding import StopReason
from leadsman.worker.verdicts import Done, Failed, GivenBack, Gone, raised, returned, task_error, unknown_handler


def test_a_result_is_an_ack():
    assert returned({"a": (1,)}) == Done({"a": [1]})
    assert returned(None) == Done(None)


@pytest.mark.parametrize(
    ("value", "words"),
    [(object(), "the result is not JSON"), ("x" * 70_000, "the result has 70002 bytes and may have 65536")],
)
def test_a_result_that_cannot_be_kept_is_dead_at_once_and_says_why(value, words):
    verdict = returned(value)
    assert isinstance(verdict, Failed)
    assert not verdict.retry
    assert verdict.error.type == "InvalidResult"
    assert words in verdict.error.message


def test_any_exception_is_a_failure_with_its_type_and_message():
    assert raised(ValueError("no page"), None) == Failed(task_error("ValueError", "no page"))
    assert raised(SystemExit(3), None) == Failed(task_error("SystemExit", "3"))


def test_the_typed_outcomes_say_what_they_say():
    assert raised(Retry("429", after_s=7), None) == Failed(task_error("Retry", "429"), retry_after_seconds=7.0)
    assert raised(Dead("no such page"), None) == Failed(task_error("Dead", "no such page"), retry=False)
    assert raised(Release("busy", after_s=2), None) == GivenBack("busy", 2.0)
    assert raised(RateLimited("429", after_s=2), None) == GivenBack("429", 2.0, spread=True)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TaskCancelled()])
def test_a_handler_that_stops_when_told_gives_the_task_back(error):
    assert raised(error, StopReason.DRAINING) == GivenBack("draining")
    assert raised(error, StopReason.CANCELLED) == GivenBack("cancelled")
    assert raised(error, StopReason.LEASE_LOST) == Gone()


def test_a_cancellation_nobody_asked_for_is_a_failure():
    assert raised(asyncio.CancelledError(), None) == Failed(task_error("CancelledError", ""))


def test_an_error_after_being_told_to_stop_is_still_a_failure():
    assert raised(OSError("disk"), StopReason.DRAINING) == Failed(task_error("OSError", "disk"))


@pytest.mark.parametrize(
    ("given_seconds", "sent"), [(-3, 0.0), (math.nan, None), (math.inf, 31_536_000.0), ("soon", None), ([], None)]
)
def test_a_delay_out_of_bounds_is_brought_within(given_seconds, sent):
    assert raised(Retry(after_s=given_seconds), None).retry_after_seconds == sent


def test_an_unknown_handler_is_tried_again_because_a_newer_worker_may_have_it():
    verdict = unknown_handler("browser", "fetch2", ("default", "fetch"))
    assert verdict.retry
    assert verdict.error.type == "UnknownHandler"
    assert verdict.error.message == "this worker has no handler 'fetch2' for browser; it has default, fetch"


@given(st.text(max_size=6000), st.text(max_size=300))
def test_whatever_a_handler_puts_into_an_error_fits_the_wire(message, kind):
    error = task_error(kind, message)
    assert 1 <= len(error.type) <= 200
    assert len(error.message) <= 4096
    error.model_dump_json()
    assert "\x00" not in error.message


def test_an_exception_whose_message_cannot_be_shown_is_still_a_failure():
    class BrokenError(Exception):
        def __str__(self):
            raise RuntimeError

    assert raised(BrokenError(), None).error.message == "(its message cannot be shown)"


def test_a_reason_that_is_too_long_is_cut():
    assert len(raised(Release("x" * 500), None).reason) == 200
