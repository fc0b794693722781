"""The handlers, tested without a broker: `pytest`."""

from handlers import app

from leadsman.testing import run_task


def test_a_step_measures_its_items() -> None:
    """Every item is in the result."""
    outcome = run_task(app, "my-agent", {"items": ["apples", "figs"]})
    assert outcome.result == {"apples": 6, "figs": 4}


def test_a_step_goes_on_where_the_last_attempt_was() -> None:
    """What was done before is not done again."""
    outcome = run_task(app, "my-agent", {"items": ["apples", "figs"]}, resume={"apples": 6})
    assert outcome.checkpoints == [{"apples": 6, "figs": 4}]


def test_a_payload_that_does_not_fit_is_dead_at_once() -> None:
    """The producer is at fault, and no further attempt could help."""
    outcome = run_task(app, "my-agent", {"item": "apples"})
    assert (outcome.kind, outcome.error_type, outcome.retry) == ("failed", "InvalidPayload", False)
