"""A handler that names the type of its payload gets that type, and a payload that does not fit never runs it."""

import functools
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from leadsman import App, Context, SyncContext, TaskState
from leadsman.errors import ConfigurationError
from leadsman.payloads import check_payload_types
from leadsman.testing import run_task


class Page(BaseModel):
    model_config = ConfigDict(strict=True)

    url: str
    depth: int = 1
    seen: date | None = None


@dataclass
class Point:
    x: int
    y: int


app = App()


@app.task("browser")
async def browse(ctx: Context, page: Page):
    return [type(page).__name__, page.url, page.depth, str(page.seen), ctx.payload]


@app.task("browser", name="sync")
def browse_sync(_ctx: SyncContext, page: "Page"):
    return page.url


@app.task("points")
def points(_ctx: SyncContext, payload: list[Point]):
    return sum(point.x * point.y for point in payload)


@app.task("anything")
def anything(_ctx: SyncContext, payload):
    return payload


@app.task("anything", name="optional")
def optional(_ctx: SyncContext, payload: Any = "left alone"):
    return payload


def test_the_second_parameter_gets_the_payload_as_its_type():
    payload = {"url": "u", "seen": "2026-01-31"}
    assert run_task(app, "browser", payload).result == ["Page", "u", 1, "2026-01-31", payload]
    assert run_task(app, "browser", payload, name="sync").result == "u"
    assert run_task(app, "points", [{"x": 2, "y": 3}, {"x": 1, "y": 1}]).result == 7
    assert run_task(app, "anything", {"a": 1}).result == {"a": 1}


def test_a_parameter_with_a_default_is_the_handlers_own():
    assert run_task(app, "anything", 1, name="optional").result == "left alone"


def test_a_payload_that_does_not_fit_is_dead_and_says_where():
    outcome = run_task(app, "browser", {"depth": "three"})
    assert (outcome.kind, outcome.retry, outcome.error_type) == ("failed", False, "InvalidPayload")
    assert outcome.error_message == (
        "the payload does not fit Page: url: Field required; depth: Input should be a valid integer"
    )


def test_a_long_list_of_misfits_is_cut():
    outcome = run_task(app, "points", [{"x": "a", "y": "b"}] * 4)
    assert outcome.error_message.endswith("; and 3 more")
    assert "0.x: " in outcome.error_message


def test_a_partial_and_a_callable_object_are_handlers_too():
    class Shop:
        def __call__(self, _ctx: SyncContext, page: Page):
            return page.url

    def scaled(factor: int, _ctx: SyncContext, point: Point):
        return factor * point.x

    made = App()
    made.task("shop")(Shop())
    made.task("scaled")(functools.partial(scaled, 3))
    check_payload_types(made, ["shop", "scaled"])
    assert run_task(made, "shop", {"url": "u"}).result == "u"
    assert run_task(made, "scaled", {"x": 2, "y": 0}).result == 6


def test_a_type_that_cannot_be_found_is_told_at_the_start_for_what_is_served():
    made = App()

    @made.task("browser")
    def broken(_ctx, page: "Missing"): ...  # noqa: F821

    check_payload_types(made, ["llm"])
    with pytest.raises(ConfigurationError, match=r"browser/default: the type of the payload .*Missing"):
        check_payload_types(made, ["browser"])


def test_a_function_with_more_parameters_is_refused():
    with pytest.raises(ConfigurationError, match="must take the context, and may take the payload after it"):

        @App().task("browser")
        def three(ctx, payload, more): ...


@pytest.mark.parametrize("name", ["typed", "typed-sync", "typed-isolated"])
def test_a_worker_does_so_too(broker, client, start_worker, journal, name):
    start_worker(broker.url, capabilities=["typed"])
    assert client.result(client.submit("typed", {"n": 4}, name=name).id, timeout_seconds=60) == 5
    bad = client.submit("typed", {"n": "x"}, name=name).id
    view = client.wait(bad, timeout_seconds=60)
    assert (view.state, view.error.type) == (TaskState.DEAD, "InvalidPayload")
    assert "n: Input should be a valid integer" in view.error.message
    assert not journal.entries("ran", bad)


def test_a_provider_s_429_spends_no_attempt(broker, client, start_worker):
    start_worker(broker.url, capabilities=["typed"])
    task = client.submit("typed", name="rate-limited").id
    view = client.wait(task, timeout_seconds=60)
    assert (view.state, view.result) == (TaskState.COMPLETED, 1)
    assert (view.attempts.releases, view.attempts.failures) == (1, 0)
    assert any("slow down" in (entry.detail or "") for entry in view.history)
