"""What every store must do: tasks, keys, history, listings."""

import random

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig, check, picture
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core
from leadsman_broker.core.openings import OpeningRow
from leadsman_broker.core.rows import (
    AcceptedRow,
    Changes,
    CordonRow,
    EndedRow,
    Ending,
    FenceRow,
    FollowUp,
    HistoryRow,
    NamespaceRow,
    Needs,
    OnceRow,
    PauseRow,
    TotalsRow,
)
from leadsman_broker.core.usage import Estimate
from leadsman_broker.store.dead import DeadQuery
from leadsman_broker.store.errors import StoreFencedError
from leadsman_broker.store.interface import TaskQuery
from leadsman_broker.store.memory import MemoryStore, MemoryTables
from store_rig import accepted, ending, live, standing, task_id

LEASED = {
    "epoch": 3,
    "secret": "s3cret",
    "failures": 1,
    "reclaims": 2,
    "releases": 4,
    "poison": 1,
    "suspect": True,
    "cancel": True,
    "history": 9,
    "settled_epoch": 2,
    "settled_op": "nack",
    "settled_state": TaskState.DELAYED,
    "lease_pod": "pod",
    "lease_incarnation": "i1",
    "lease_pool": "pool",
    "lease_attempt_id": "a1",
    "lease_started_at": 110.5,
    "lease_expires_at": 140.25,
}


def test_a_new_store_is_empty(store):
    stored = store.load()
    assert list(stored.tasks) == []
    assert (stored.next_seq, stored.last_at, stored.dead, stored.namespaces) == (1, 0.0, {}, [])


def test_every_field_of_a_live_task_comes_back_as_it_was(reopen):
    fresh = live(1)
    rich = live(
        2,
        tenant="tenant ü",
        task_class=TaskClass.INTERACTIVE,
        priority=9,
        accepted_at=100.125,
        max_attempts=77,
        run_id="run-1",
        estimate=Estimate(None, 2_500_000),
        standing=standing(due_at=130.5, backing_off=True, expires_at=1e9, **LEASED),
    )
    rows = [AcceptedRow(row, "default", b"null", None, b"", None) for row in (fresh, rich)]
    reopen().commit(Changes(at=100.0, next_seq=3, accepted=rows))
    loaded = list(reopen().load().tasks)
    assert loaded == [fresh, rich]
    assert [type(value) for row in loaded for value in (*row[:-1], *row.standing)] == [
        type(value) for row in (fresh, rich) for value in (*row[:-1], *row.standing)
    ]


def test_live_tasks_come_in_order_of_seq(reopen):
    reopen().commit(Changes(accepted=[accepted(seq) for seq in (5, 1, 9, 3)]))
    assert [row.seq for row in reopen().load().tasks] == [1, 3, 5, 9]


def test_an_update_replaces_all_of_the_standing(reopen):
    store = reopen()
    store.commit(Changes(accepted=[accepted(1)]))
    updated = live(1, standing=standing(**LEASED))
    store.commit(Changes(updated=[updated]))
    assert list(reopen().load().tasks) == [updated]


def test_next_seq_and_the_clock_never_go_back(reopen):
    store = reopen()
    store.commit(Changes(at=500.0, next_seq=12, totals={(NAMESPACE, CAPABILITY): TotalsRow(accepted=1)}))
    store.commit(Changes(at=400.0, next_seq=7, totals={(NAMESPACE, CAPABILITY): TotalsRow(accepted=2)}))
    stored = reopen().load()
    assert (stored.next_seq, stored.last_at) == (12, 500.0)


def test_the_generation_grows_with_every_opening(reopen):
    assert [reopen().generation for _ in range(3)] == [1, 2, 3]


def test_what_a_step_changed_can_be_committed_with_everything_else_it_changed(reopen):
    store = reopen()
    store.commit(Changes(accepted=[accepted(1, b"1"), accepted(2, b"2")]))
    rules = CapabilityConfig(name=CAPABILITY, lease_seconds=7)
    key = (NAMESPACE, CAPABILITY)
    store.commit(
        Changes(
            accepted=[accepted(3, b"3")],
            updated=[live(1, standing=standing(**LEASED))],
            checkpoints={1: b"at 1"},
            history=[HistoryRow(1, 1, 100.5, "failed", 1, "pod.i1", "Boom", 99.25)],
            namespaces={NAMESPACE: NamespaceRow(NAMESPACE, 4, (rules,), (CapabilityConfig(name="old"),))},
            fences={"pod": FenceRow("pod", "op", 900.0), "none": None},
            cordons={pod: CordonRow(pod, "op", 800.0, pod == "asked") for pod in ("asked", "kept")}
            | {"none": None},
            pauses={key: PauseRow(*key, 700.0, "why"), ("never", "paused"): None},
            totals={key: TotalsRow(*range(1, len(TotalsRow._fields) + 1))},
            service_times={key: (1.5, 2.25)},
        )
    )
    store = reopen()
    stored = store.load()
    assert [row.seq for row in stored.tasks] == [1, 2, 3]
    assert stored.namespaces == [NamespaceRow(NAMESPACE, 4, (rules,), (CapabilityConfig(name="old"),))]
    assert stored.fences == [FenceRow("pod", "op", 900.0)]
    assert sorted(stored.cordons) == [CordonRow("asked", "op", 800.0, True), CordonRow("kept", "op", 800.0, False)]
    assert stored.pauses == [PauseRow(*key, 700.0, "why")]
    assert stored.totals == {key: TotalsRow(*range(1, len(TotalsRow._fields) + 1))}
    assert stored.service_times == {key: (1.5, 2.25)}
    assert store.deliveries([task_id(1)])[task_id(1)].checkpoint == b"at 1"
    record = store.task(NAMESPACE, task_id(1), 100.0)
    assert record.history == (HistoryRow(1, 1, 100.5, "failed", 1, "pod.i1", "Boom", 99.25),)


def test_of_tasks_that_nobody_had_yet_less_is_read_and_the_same_told(store):
    rows = [accepted(seq, b"%d" % seq) for seq in (1, 2, 3)]
    rows[1] = rows[1]._replace(traceparent="00-ab-cd-01", name="other")
    store.commit(Changes(accepted=rows))
    ids = [task_id(seq) for seq in (3, 1, 2, 9)]
    found = store.deliveries(ids, first=True)
    assert found == store.deliveries(ids)
    assert {task_id(seq): b"%d" % seq for seq in (1, 2, 3)} == {key: one.payload for key, one in found.items()}
    assert store.deliveries([task_id(1)[:12] + "ffffffff"], first=True) == {}


@pytest.mark.parametrize("many", [2, 5, 16, 86, 200])
def test_a_step_of_many_tasks_is_written_whole_and_each_task_as_itself(reopen, many):
    """A store may write many rows with one statement; none may be left out, doubled or mixed up."""
    seqs = range(1, many + 1)
    store = reopen()
    store.commit(Changes(accepted=[accepted(seq, b"%d" % seq, key=f"k{seq}") for seq in seqs]))
    leased = [live(seq, keyed=True, standing=standing(epoch=seq, secret=f"s{seq}")) for seq in seqs]
    history = [HistoryRow(seq, 1, float(seq), "failed", 1, "w", f"detail {seq}") for seq in seqs]
    store.commit(Changes(updated=leased, checkpoints={seq: b"at %d" % seq for seq in seqs}, history=history))
    store = reopen()
    assert list(store.load().tasks) == leased
    found = store.deliveries([task_id(seq) for seq in seqs])
    assert [found[task_id(seq)].payload for seq in seqs] == [b"%d" % seq for seq in seqs]
    assert [found[task_id(seq)].checkpoint for seq in seqs] == [b"at %d" % seq for seq in seqs]
    details = [store.task(NAMESPACE, task_id(seq), 0.0).history[0].detail for seq in seqs]
    assert details == [f"detail {seq}" for seq in seqs]

    ended = [
        Ending(EndedRow(row, TaskState.DEAD, 1.0, 900.0, 900.0, False), f"because {row.seq}", None, None, None)
        for row in leased
    ]
    store.commit(Changes(ended=ended))
    records = store.dead(DeadQuery(NAMESPACE, CAPABILITY, limit=many + 1), 1.0).records
    assert [(record.ended, record.reason) for record in records] == [(row.ended, row.reason) for row in ended]
    assert list(store.load().tasks) == []

    half = leased[: many // 2]
    store.commit(Changes(revived=half))
    assert list(reopen().load().tasks) == half
    store = reopen()
    due = store.read(Needs(purge_before=900.0, purge_limit=many)).purge
    assert [row.seq for row in due] == [*seqs][many // 2 :]
    store.commit(Changes(purged=due))
    keys = {(NAMESPACE, CAPABILITY, "", f"k{seq}") for seq in seqs}
    assert {key[3] for key in store.read(Needs(keys=keys)).keys} == {f"k{row.seq}" for row in half}


def test_a_lifted_fence_cordon_or_pause_and_a_forgotten_queue_are_gone(reopen):
    key = (NAMESPACE, CAPABILITY)
    store = reopen()
    store.commit(
        Changes(
            fences={"pod": FenceRow("pod", "op", 900.0)},
            cordons={"pod": CordonRow("pod", "op", 900.0, False)},
            pauses={key: PauseRow(*key, 700.0, "")},
            totals={key: TotalsRow(1)},
            service_times={key: (1.0,)},
        )
    )
    store.commit(
        Changes(fences={"pod": None}, cordons={"pod": None}, pauses={key: None}, forgotten=[key, ("never", "seen")])
    )
    stored = reopen().load()
    assert (stored.fences, stored.cordons, stored.pauses) == ([], [], [])
    assert (stored.totals, stored.service_times) == ({}, {})


@pytest.mark.parametrize("payload", [b"null", b"", b'"\\u0000\\ud800"', b"\x00\xff" * 9, b"x" * 1_000_000])
def test_a_payload_comes_back_byte_for_byte(reopen, payload):
    reopen().commit(Changes(accepted=[accepted(1, payload)]))
    store = reopen()
    assert store.deliveries([task_id(1)])[task_id(1)].payload == payload
    assert store.payload(NAMESPACE, task_id(1)) == payload


@pytest.mark.parametrize("text", ["plain", "nul \x00 inside", "ü", "'; DROP TABLE live; --", "\N{PILE OF POO}"])
def test_any_text_comes_back_as_it_was(store, text):
    check_text(Rig(store=store), text)


def check_text(rig: Rig, text: str) -> None:
    task = rig.submit(tenant=text, idempotency_key=text, name=text)
    granted = rig.lease_one()
    assert rig.store.deliveries([task.id])[task.id].name == text
    rig.nack(granted, error_type=text, error_message=text, retry=False)
    record = rig.record(task.id)
    assert (record.live.tenant, record.key, record.name, record.error_type) == (text, text, text, text)
    assert rig.submit(tenant=text, idempotency_key=text).id == task.id


def test_only_the_newest_history_of_a_task_is_kept(store):
    store.commit(Changes(accepted=[accepted(1), accepted(2)]))
    for number in range(1, 121):
        store.commit(Changes(history=[HistoryRow(1, number, 1.0, "released", 1, None, None)]))
    store.commit(Changes(history=[HistoryRow(2, 1, 1.0, "failed", 1, None, None)]))
    numbers = [entry.number for entry in store.task(NAMESPACE, task_id(1), 1.0).history]
    assert numbers == list(range(71, 121))
    assert len(store.task(NAMESPACE, task_id(2), 1.0).history) == 1


def test_a_key_is_found_with_the_state_of_its_task(store):
    rig = Rig(store=store)
    task = rig.submit(idempotency_key="k", fingerprint=b"fp", tenant="t")
    key = (NAMESPACE, CAPABILITY, "t", "k")
    found = store.read(Needs(keys={key, (NAMESPACE, CAPABILITY, "", "k")})).keys
    assert set(found) == {key}
    assert (found[key].task_id, found[key].fingerprint, found[key].state) == (task.id, b"fp", None)
    rig.ack(rig.lease_one())
    row = store.read(Needs(keys={key})).keys[key]
    assert (row.state, row.ended_at) == (TaskState.COMPLETED, rig.now)


def test_once_values_are_read_by_task_handed_out_and_go_with_it(reopen):
    store = reopen()
    store.commit(Changes(accepted=[accepted(number) for number in (1, 2, 3)]))
    store.commit(Changes(once=[OnceRow(1, "a/b", b'{"x":1}'), OnceRow(1, "c", b"null"), OnceRow(2, "c", b"2")]))
    store = reopen()
    ids = {task_id(number) for number in (1, 2, 3)}
    assert store.read(Needs(once=ids)).once == {
        task_id(1): {"a/b": b'{"x":1}', "c": b"null"},
        task_id(2): {"c": b"2"},
    }
    found = {number: store.deliveries([*ids])[task_id(number)].once for number in (1, 2, 3)}
    assert found == {1: b'{"a/b":{"x":1},"c":null}', 2: b'{"c":2}', 3: None}
    store.commit(Changes(once=[OnceRow(3, "z", b"3")], ended=[ending(1), ending(2, TaskState.DEAD)]))
    assert store.read(Needs(once=ids)).once.keys() == {task_id(2), task_id(3)}


def test_a_completed_task_keeps_its_result_and_gives_up_its_payload(store):
    rig = Rig(store=store)
    task = rig.submit(payload=b'"big"')
    rig.beat("w1")
    granted = rig.lease_one()
    rig.beat("w1", granted.token, checkpoints={granted.token: b"1"})
    rig.ack(granted, b'{"a":1}')
    record = rig.record(task.id)
    assert (record.ended.state, record.result) == (TaskState.COMPLETED, b'{"a":1}')
    assert store.payload(NAMESPACE, task.id) is None
    assert store.deliveries([task.id]) == {}


def test_a_dead_task_keeps_its_payload_and_checkpoint_for_a_redrive(store):
    rig = Rig(store=store)
    task = rig.submit(payload=b'"big"')
    rig.nack(rig.lease_one(), retry=False, checkpoint=b"7")
    assert store.payload(NAMESPACE, task.id) == b'"big"'
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, (task.id,)))
    delivery = store.deliveries([task.id])[task.id]
    assert (delivery.payload, delivery.checkpoint) == (b'"big"', b"7")


def test_a_task_is_read_only_in_its_own_namespace(store):
    rig = Rig(store=store)
    task = rig.submit()
    for _ in range(2):
        assert store.task("other", task.id, rig.now) is None
        assert store.payload("other", task.id) is None
        rig.nack(rig.lease_one(), retry=False) if rig.row(task.id) else None


@pytest.mark.parametrize("unknown", ["", "x", "0" * 20, "ffffffffffff00000000", "é" * 20, "\x00" * 20])
def test_an_unknown_id_is_not_found(store, unknown):
    Rig(store=store).submit()
    assert store.task(NAMESPACE, unknown, 0.0) is None
    assert store.payload(NAMESPACE, unknown) is None
    assert store.deliveries([unknown]) == {}
    assert store.read(Needs(ended={unknown})).ended == {}


def test_an_id_with_the_right_seq_and_another_random_part_is_not_found(store):
    rig = Rig(store=store)
    task = rig.submit()
    other = task.id[:12] + ("0" * 8 if not task.id.endswith("0" * 8) else "1" * 8)
    for _ in range(2):
        assert store.task(NAMESPACE, other, rig.now) is None
        assert store.deliveries([other]) == {}
        assert store.read(Needs(ended={other})).ended == {}
        if rig.row(task.id):
            rig.ack(rig.lease_one())


def test_what_an_ack_was_answered_for_its_follow_ups_is_read_with_the_task(reopen):
    store = reopen()
    follow_ups = (
        FollowUp(task_id(9), TaskState.READY),
        FollowUp(task_id(3), TaskState.COMPLETED, duplicate=True),
        FollowUp(None, None, code="run_ended", reason="run r is failed: took longer than 1 s"),
    )
    done = ending(1)
    done = done._replace(ended=done.ended._replace(follow_ups=follow_ups))
    store.commit(Changes(accepted=[accepted(1), accepted(2)], ended=[done, ending(2)]))
    store = reopen()
    found = store.read(Needs(ended={task_id(1), task_id(2)})).ended
    assert found == {task_id(1): done.ended, task_id(2): ending(2).ended}


def test_since_when_work_can_be_leased_again_is_kept_and_replaced_and_goes_with_time_and_queue(reopen):
    store = reopen()
    key, other = (NAMESPACE, CAPABILITY), (NAMESPACE, "llm")
    queue, gone = OpeningRow(*key, None, False, 5.0), OpeningRow(*other, None, False, 6.0)
    old, new = OpeningRow(*key, "a", True, 7.0), OpeningRow(*key, "b", False, 9.0)
    store.commit(Changes(openings=[queue, old, gone, OpeningRow(*key, "b", False, 8.0)]))
    store.commit(Changes(openings=[new]))
    store = reopen()
    assert sorted(store.load().openings, key=str) == sorted([queue, old, gone, new], key=str)
    store.commit(Changes(budgets_turned={key: 9.0}, forgotten=[other]))
    assert sorted(store.load().openings, key=str) == sorted([queue, old, new], key=str)
    store.commit(Changes(openings_before=9.0))
    assert sorted(store.load().openings, key=str) == sorted([queue, new], key=str)


def test_what_is_no_longer_visible_is_not_shown_although_its_key_still_keeps_it(store):
    rig = Rig(CapabilityConfig(name=CAPABILITY, dead_retention_seconds=60), store=store)
    task = rig.submit(idempotency_key="k")
    rig.nack(rig.lease_one(), retry=False)
    rig.wait(60)
    assert rig.record(task.id) is None
    assert rig.dead().records == []
    assert store.tasks(TaskQuery(NAMESPACE, 9), rig.now).records == []
    assert rig.submit(idempotency_key="k").duplicate


def test_removal_takes_the_earliest_due_first_and_all_that_belongs_to_them(store):
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=100), store=store)
    ids = []
    for number in range(6):
        ids.append(rig.submit(idempotency_key=f"k{number}" if number == 5 else None).id)
        granted = rig.lease_one()
        rig.beat("w1", granted.token, checkpoints={granted.token: b"1"})
        rig.ack(granted)
        rig.freeze(1)
    due = store.read(Needs(purge_before=rig.now + 98, purge_limit=3)).purge
    assert [(row.task_id, row.state) for row in due] == [(task, TaskState.COMPLETED) for task in ids[:3]]
    store.commit(Changes(purged=due))
    assert [store.task(NAMESPACE, task, rig.now) is None for task in ids] == [True] * 3 + [False] * 3
    assert store.read(Needs(ended=set(ids))).ended.keys() == set(ids[3:])
    later = store.read(Needs(purge_before=rig.now + 1e6, purge_limit=9)).purge
    assert [row.task_id for row in later] == ids[3:]
    store.commit(Changes(purged=later))
    assert store.read(Needs(keys={(NAMESPACE, CAPABILITY, "", "k5")})).keys == {}


def test_removing_an_old_task_leaves_a_key_that_means_a_newer_one(store):
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=10 * 86_400), store=store)
    rig.submit(idempotency_key="k")
    rig.ack(rig.lease_one())
    rig.wait(86_400)
    newer = rig.submit(idempotency_key="k")
    rig.wait(9 * 86_400 + 60)
    assert rig.submit(idempotency_key="k").id == newer.id


def test_a_memory_store_that_was_taken_over_may_not_write():
    tables = MemoryTables()
    old = MemoryStore(tables)
    MemoryStore(tables)
    with pytest.raises(StoreFencedError):
        old.commit(Changes(accepted=[accepted(1)]))
    assert tables.live == {}


def test_a_core_built_again_from_the_store_equals_the_one_that_wrote_it(store):
    """Random traffic; the rows of both cores are compared, leases but for their expiry."""
    rig = Rig(
        CapabilityConfig(name=CAPABILITY, backoff_seconds=0.5, max_attempts=3, completed_retention_seconds=20),
        CapabilityConfig(name="other", lease_seconds=4),
        store=store,
    )
    dice = random.Random(7)
    held = []
    for number in range(400):
        rig.wait(dice.random())
        name = f"w{dice.randrange(6)}"
        move = dice.randrange(7)
        if move <= 2:
            rig.submit(
                dice.randrange(1, 4),
                dice.choice([CAPABILITY, "other"]),
                priority=dice.randrange(3),
                delay_seconds=dice.choice([0, 0, 3]),
                ttl_seconds=dice.choice([None, None, 6]),
                tenant=dice.choice(["", "a"]),
                idempotency_key=f"k{dice.randrange(60)}",
            )
        elif move <= 4:
            held += rig.lease(name, CAPABILITY, "other", slots=50, free=2)
        elif held:
            granted = held.pop(dice.randrange(len(held)))
            dice.choice([rig.ack, rig.nack, rig.release, lambda lease: rig.nack(lease, retry=False)])(granted)
        if number % 50 == 49:
            again = Core(store.load(), rig.now, random.Random(1), rig.settings)
            check(again)
            assert picture(again) == picture(rig.core)
