"""Events: named apart, cut to size, never more than etcd can bear and never silent about the last thing."""

import asyncio

from leadsman_operator.event_reasons import EventReason
from leadsman_operator.kube.ending import ENDING_SECONDS
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.event_manifest import CONTROLLER
from leadsman_operator.kube.events import BURST, MAX_WAITING, REFILL_SECONDS, EventRecorder

POOL = {
    "apiVersion": "leadsman.dev/v1alpha1",
    "kind": "WorkerPool",
    "metadata": {"namespace": "ns", "name": "browser", "uid": "u1", "resourceVersion": "7"},
}


class Server:
    """Takes events as the API server does, or fails as it is told to."""

    def __init__(self):
        self.bodies = []
        self.failures = []

    async def create(self, _kind, _namespace, body):
        if self.failures:
            raise self.failures.pop(0)
        self.bodies.append(body)
        return body


def play(virtual_time, scenario, server=None):
    server = server or Server()

    async def run():
        recorder = EventRecorder(server, "operator-1")
        writer = asyncio.create_task(recorder.run())
        await scenario(recorder)
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)

    virtual_time.run(run())
    return server.bodies


def test_an_event_is_one_that_kubectl_shows_for_the_pool(virtual_time):
    async def scenario(recorder):
        recorder.record(POOL, EventReason.SCALED_OUT, "0 -> 3: 3 waiting", action="ScaleOut")
        await asyncio.sleep(1)

    (body,) = play(virtual_time, scenario)
    assert body["regarding"] == {
        "apiVersion": "leadsman.dev/v1alpha1",
        "kind": "WorkerPool",
        "namespace": "ns",
        "name": "browser",
        "uid": "u1",
    }
    assert (body["reason"], body["note"], body["type"]) == ("ScaledOut", "0 -> 3: 3 waiting", "Normal")
    assert (body["reportingController"], body["reportingInstance"]) == (CONTROLLER, "operator-1")
    assert body["metadata"]["name"].startswith("browser.")


def test_no_two_events_have_one_name_and_a_long_note_is_cut_between_letters(virtual_time):
    async def scenario(recorder):
        for _ in range(5):
            recorder.record(POOL, EventReason.SCALED_OUT, "ü" * 2000)
        await asyncio.sleep(1)

    bodies = play(virtual_time, scenario)
    assert len({body["metadata"]["name"] for body in bodies}) == 5
    assert all(len(body["note"].encode()) <= 1024 and body["note"].endswith("...") for body in bodies)


def test_a_pool_that_flaps_has_a_budget_and_its_last_word_is_still_told(virtual_time):
    async def scenario(recorder):
        for n in range(200):
            recorder.record(POOL, EventReason.SCALED_OUT, f"out {n}")
            recorder.record(POOL, EventReason.SCALED_IN, f"in {n}")
        await asyncio.sleep(1)
        recorder.record({**POOL, "metadata": {**POOL["metadata"], "uid": "u2"}}, EventReason.READY, "another's")
        await asyncio.sleep(3 * REFILL_SECONDS)

    notes = [body["note"] for body in play(virtual_time, scenario)]
    assert notes[:BURST] == [f"{way} {n}" for n in range(13) for way in ("out", "in")][:BURST]
    assert "another's" in notes
    assert set(notes[BURST:]) == {"another's", "out 199", "in 199"}


def named(uid):
    return {**POOL, "metadata": {**POOL["metadata"], "uid": uid}}


def test_pools_that_come_and_go_leave_nothing_behind_in_it(virtual_time):
    kept = []

    async def scenario(recorder):
        for number in range(20):
            for _ in range(BURST + 5):
                recorder.record(named(f"u{number}"), EventReason.SCALED_OUT, "out")
            recorder.forget(f"u{number}")
            await asyncio.sleep(1)
        kept.extend([recorder._budgets, recorder._held, recorder._waiting])

    bodies = play(virtual_time, scenario)
    assert not any(kept)
    assert len(bodies) == 20 * (BURST + 1), "what was held back is told once"


def test_while_nothing_can_be_written_what_waits_is_bounded_and_the_newest_of_it_is_kept(virtual_time):
    server, dropped = Server(), []
    server.failures = [UnreachableError("away")] * 4

    async def scenario():
        recorder = EventRecorder(server, "operator-1", dropped=lambda: dropped.append(1))
        writer = asyncio.create_task(recorder.run())
        for number in range(MAX_WAITING + 500):
            recorder.record(named(f"u{number}"), EventReason.SCALED_OUT, f"of {number}")
        await asyncio.sleep(60)
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)

    virtual_time.run(scenario())
    notes = [body["note"] for body in server.bodies]
    assert len(notes) + len(dropped) == MAX_WAITING + 500
    assert len(notes) <= MAX_WAITING
    assert notes[-1] == f"of {MAX_WAITING + 499}"


def test_an_api_server_that_is_away_for_a_moment_loses_no_event(virtual_time):
    server = Server()
    server.failures = [UnreachableError("away"), ApiError(503, "ServiceUnavailable", "later")]

    async def scenario(recorder):
        recorder.record(POOL, EventReason.SCALED_OUT, "first")
        recorder.record(POOL, EventReason.SCALED_OUT, "second")
        await asyncio.sleep(10)

    assert [body["note"] for body in play(virtual_time, scenario, server)] == ["first", "second"]


def test_an_event_that_is_refused_does_not_hold_up_the_next(virtual_time):
    server = Server()
    server.failures = [ApiError(422, "Invalid", "no such thing")]

    async def scenario(recorder):
        recorder.record(POOL, EventReason.SCALED_OUT, "first")
        recorder.record(POOL, EventReason.SCALED_OUT, "second")
        await asyncio.sleep(0.1)

    assert [body["note"] for body in play(virtual_time, scenario, server)] == ["second"]


def test_the_budget_of_an_object_that_went_goes_too_also_if_a_call_under_way_records_once_more(virtual_time):
    recorders = []

    async def scenario(recorder):
        recorders.append(recorder)
        for number in range(100):
            pool = named(f"gone-{number}")
            recorder.record(pool, EventReason.READY, "ready")
            recorder.forget(f"gone-{number}")
            recorder.record(pool, EventReason.READY, "told by what was under way")
        await asyncio.sleep((BURST + 2) * REFILL_SECONDS)

    assert len(play(virtual_time, scenario)) == 200
    assert not recorders[0]._budgets


def test_a_budget_that_is_used_up_is_kept_until_it_is_full_again(virtual_time):
    async def scenario(recorder):
        for n in range(BURST):
            recorder.record(POOL, EventReason.SCALED_OUT, f"out {n}")
        await asyncio.sleep((BURST - 1) * REFILL_SECONDS)
        for n in range(BURST):
            recorder.record(POOL, EventReason.SCALED_IN, f"in {n}")
        await asyncio.sleep(1)

    assert len(play(virtual_time, scenario)) == 2 * BURST - 1


def test_in_a_namespace_that_ends_one_event_is_refused_and_no_other_tried(virtual_time):
    server = Server()
    server.failures = [ApiError(403, "Forbidden", "namespace ns is being terminated")]
    elsewhere = {**POOL, "metadata": {**POOL["metadata"], "namespace": "another", "uid": "u9"}}

    async def scenario(recorder):
        for number in range(20):
            recorder.record(POOL, EventReason.SCALED_OUT, f"out {number}")
        recorder.record(elsewhere, EventReason.SCALED_OUT, "elsewhere")
        await asyncio.sleep(1)
        assert not server.failures
        await asyncio.sleep(ENDING_SECONDS)
        recorder.record(POOL, EventReason.SCALED_IN, "of a namespace that has its name")
        await asyncio.sleep(1)

    notes = [body["note"] for body in play(virtual_time, scenario, server)]
    assert notes == ["elsewhere", "of a namespace that has its name"]
