"""Lists of tasks straight from the stores: the same pages from each, whatever the filter, in bounded portions."""

import itertools
import random

import pytest

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.commands import Ack, Configure, Enqueue, Lease, NewTask, Worker
from leadsman_broker.core.core import Core
from leadsman_broker.store.interface import TaskQuery
from leadsman_broker.store.memory import MemoryStore
from leadsman_broker.store.sqlite import SqliteStore, listing

NAMESPACES, CAPABILITIES, TENANTS = ("one", "two"), ("a", "b"), ("", "x", "y")


class Filled:
    """A store with tasks in every state, and what is in it by seq."""

    def __init__(self, store):
        self.store = store
        self.now = 1_000_000.0
        self.rand = random.Random(1)
        self.core = Core(store.load(), self.now, self.rand)
        rules = tuple(CapabilityConfig(name=name, completed_retention_seconds=50) for name in CAPABILITIES)
        for namespace in NAMESPACES:
            self.do(Configure(namespace, 1, rules))
        worker = {namespace: Worker(namespace, "pod", "1") for namespace in NAMESPACES}
        for number, (namespace, capability, tenant) in enumerate(
            itertools.islice(itertools.cycle(itertools.product(NAMESPACES, CAPABILITIES, TENANTS)), 120)
        ):
            delay = 60.0 if number % 5 == 0 else 0.0
            self.do(Enqueue(namespace, (NewTask(capability, tenant=tenant, delay_seconds=delay),)))
            if number % 3 == 0:
                lease = Lease(number, worker[namespace], CAPABILITIES, 100, 1, f"a{number}")
                for answer in self.do(lease).answers:
                    for granted in answer.leases:
                        if number % 2 == 0:
                            self.do(Ack(namespace, granted.token))

    def do(self, *commands):
        commands = [*commands, *self.core.chores(self.now)]
        step = self.core.step(commands, self.store.read(self.core.needs(commands)), self.now, self.rand)
        self.store.commit(step.changes)
        return step

    def pages(self, query, now):
        found, pages = [], 0
        while True:
            page = self.store.tasks(query, now)
            assert len(page.records) <= query.limit
            found += page.records
            pages += 1
            if page.next_after is None:
                return found, pages
            assert page.next_after > query.after
            query = query._replace(after=page.next_after)


@pytest.fixture(params=["memory", "sqlite"])
def filled(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path)
    yield Filled(store)
    store.close()


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr(listing, "PORTION", 7)
    monkeypatch.setattr(listing, "PORTIONS", 3)


@pytest.mark.usefixtures("small_portions")
def test_every_filter_gives_exactly_the_tasks_that_fit_in_order(filled):
    now = filled.now
    everything = {namespace: filled.pages(TaskQuery(namespace, 1000), now)[0] for namespace in NAMESPACES}
    assert {record.state_at(now) for record in everything["one"]} >= {
        TaskState.READY,
        TaskState.DELAYED,
        TaskState.LEASED,
        TaskState.COMPLETED,
    }
    for namespace, state, capability, tenant, limit in itertools.product(
        NAMESPACES, (None, *TaskState), (None, *CAPABILITIES, "none"), (None, "", "x", "z"), (3, 1000)
    ):
        wanted = [
            record
            for record in everything[namespace]
            if state in {None, record.state_at(now)}
            and capability in {None, record.live.capability}
            and tenant in {None, record.live.tenant}
        ]
        query = TaskQuery(namespace, limit, state=state, capability=capability, tenant=tenant)
        assert filled.pages(query, now)[0] == wanted


def test_a_listed_task_is_the_one_that_can_be_read(filled):
    for record in filled.pages(TaskQuery("one", 10), filled.now)[0]:
        assert filled.store.task("one", record.live.id, filled.now)._replace(history=()) == record


def seqs(records):
    return [record.live.seq for record in records]


def test_all_tasks_are_listed(filled):
    one, two = (seqs(filled.pages(TaskQuery(namespace, 10), filled.now)[0]) for namespace in NAMESPACES)

    assert sorted(one + two) == list(range(1, 121))


def test_an_ended_task_whose_retention_is_over_is_not_listed(filled):
    completed = TaskQuery("one", 1000, state=TaskState.COMPLETED)
    assert filled.pages(completed, filled.now)[0]

    assert filled.pages(completed, filled.now + 51)[0] == []


def test_a_delayed_task_is_listed_as_ready_when_its_time_has_come(filled):
    delayed = filled.pages(TaskQuery("one", 1000, state=TaskState.DELAYED), filled.now)[0]
    assert delayed

    later = filled.now + 61
    assert filled.pages(TaskQuery("one", 1000, state=TaskState.DELAYED), later)[0] == []
    ready = filled.pages(TaskQuery("one", 1000, state=TaskState.READY), later)[0]
    assert set(seqs(delayed)) <= set(seqs(ready))


@pytest.mark.usefixtures("small_portions")
def test_a_page_looks_at_a_bounded_number_of_tasks(tmp_path):
    filled = Filled(SqliteStore(tmp_path))
    try:
        found, pages = filled.pages(TaskQuery("one", 1000, tenant="nobody"), filled.now)
    finally:
        filled.store.close()

    assert found == []
    assert pages == 120 // (listing.PORTION * listing.PORTIONS) + 1


def test_what_was_purged_is_passed_over_in_one_stride(tmp_path):
    filled = Filled(SqliteStore(tmp_path))
    try:
        filled.now += 1_000_000
        filled.do()
        filled.do(Enqueue("one", (NewTask("a"),)))
        kept, _ = filled.pages(TaskQuery("one", 1000), filled.now)
    finally:
        filled.store.close()

    assert seqs(kept)[-1] == 121
    assert TaskState.COMPLETED not in {record.state_at(filled.now) for record in kept}
