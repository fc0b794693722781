"""Handlers run in a test without a broker, judged as the worker judges them."""

import pytest

from leadsman import App, Context, Dead, Release, Retry, SyncContext
from leadsman.errors import ConfigurationError
from leadsman.testing import FakeLease, fake_context, fake_sync_context, run_task, run_task_async
from leadsman.worker.holding import StopReason

app = App()


@app.task("steps")
async def steps(ctx: Context):
    start = ctx.resume["next"] if ctx.resume else 0
    for number in range(start, ctx.payload):
        await ctx.checkpoint({"next": number + 1})
    return {"from": start, "tenant": ctx.tenant}


@app.task("steps", name="sync")
def steps_sync(ctx: SyncContext):
    for number in range(ctx.payload):
        ctx.checkpoint(number)
    return ctx.task_id


@app.task("ends")
def ends(ctx: SyncContext):
    raise {"retry": Retry("x", after_s=3), "dead": Dead("x"), "release": Release(after_s=2), "bug": KeyError("x")}[
        ctx.payload
    ]


@app.task("ends", name="bad")
async def bad(ctx: Context):
    return {"result": ctx}


def test_a_result_and_its_checkpoints():
    outcome = run_task(app, "steps", 3, resume={"next": 1}, tenant="acme")
    assert (outcome.kind, outcome.result) == ("done", {"from": 1, "tenant": "acme"})
    assert outcome.checkpoints == [{"next": 2}, {"next": 3}]


def test_the_facts_of_the_task_are_given_by_name():
    assert run_task(app, "steps", 0, attempt=3, tenant="acme").result == {"from": 0, "tenant": "acme"}
    assert fake_context(attempt=3).attempt == 3


async def test_inside_a_running_loop():
    assert (await run_task_async(app, "steps", 2, name="sync", task_id="t-9")).result == "t-9"


@pytest.mark.parametrize(
    ("payload", "kind", "retry", "after"),
    [
        ("retry", "failed", True, 3),
        ("dead", "failed", False, None),
        ("release", "released", True, 2),
        ("bug", "failed", True, None),
    ],
)
def test_every_way_to_end(payload, kind, retry, after):
    outcome = run_task(app, "ends", payload)
    assert (outcome.kind, outcome.retry, outcome.after_seconds) == (kind, retry, after)


def test_a_result_that_cannot_be_kept_fails_as_it_would_in_a_worker():
    outcome = run_task(app, "ends", name="bad")
    assert (outcome.kind, outcome.error_type, outcome.retry) == ("failed", "InvalidResult", False)
    assert "at .result" in outcome.error_message


@pytest.mark.parametrize("name", ["default", "sync"])
def test_a_handler_that_is_cancelled_half_way(name):
    outcome = run_task(app, "steps", 5, name=name, cancel_at_checkpoint=2)
    assert outcome.kind == "released"
    assert len(outcome.checkpoints) == 2


def test_payload_and_resume_arrive_as_they_do_over_the_wire():
    assert fake_context({1: (2,)}, resume=(3,)).payload == {"1": [2]}
    assert fake_sync_context(resume=(3,)).resume == [3]


def test_a_lost_lease_takes_no_checkpoint():
    lease = FakeLease()
    lease.cancel(StopReason.LEASE_LOST)
    with pytest.raises(BaseException, match="the lease is lost"):
        fake_sync_context(lease=lease).checkpoint(1)
    assert lease.checkpoints == []


def test_a_handler_that_is_not_there_is_told():
    with pytest.raises(ConfigurationError, match=r"no handler steps/nope; the application has steps/default"):
        run_task(app, "steps", name="nope")


def test_a_context_shows_what_it_is_for():
    assert repr(fake_context(task_id="t", attempt=2)) == "<Context test/default t attempt 2>"
