"""Gauges and totals that are read from the broker when Prometheus asks."""

from collections import Counter as Tally
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leadsman import __version__
from leadsman_broker.core.accounts import Account
from leadsman_broker.store.interface import Store

if TYPE_CHECKING:
    from leadsman_broker.engine import Engine

_QUEUE = ("namespace", "capability")


class BrokerCollector(Collector):
    """Samples queues, workers, parked calls and the store."""

    def __init__(self, engine: "Engine", store: Store) -> None:
        self._engine = engine
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._queues()
        yield from self._totals()
        yield from self._workers()
        yield from self._runs()
        yield from self._budgets()
        yield from self._engine_state()
        yield from self._space()

    def _queues(self) -> Iterator[Metric]:
        tasks = GaugeMetricFamily("leadsman_queue_tasks", "Tasks by state", labels=(*_QUEUE, "state"))
        waiting = GaugeMetricFamily("leadsman_queue_waiting_tasks", "Ready tasks not held back", labels=_QUEUE)
        leasable = GaugeMetricFamily(
            "leadsman_queue_leasable_tasks",
            "How many more tasks could be in flight at once if workers were unlimited",
            labels=_QUEUE,
        )
        blocked = GaugeMetricFamily(
            "leadsman_queue_blocked_tasks", "Tasks held back, by reason", labels=(*_QUEUE, "reason")
        )
        oldest = GaugeMetricFamily(
            "leadsman_queue_oldest_age_seconds", "Age of the oldest ready task; 0 when none waits", labels=_QUEUE
        )
        paused = GaugeMetricFamily(
            "leadsman_queue_paused", "1 while nothing of it is leased, until someone resumes it", labels=_QUEUE
        )
        service = GaugeMetricFamily(
            "leadsman_queue_service_seconds", "Mean service time of the last completions", labels=_QUEUE
        )
        now = self._engine.clock.now()
        for key in self._engine.core.queue_keys():
            stats = self._engine.core.queue_stats(key, now)
            if stats is None:
                continue
            for state in ("ready", "delayed", "leased", "dead"):
                tasks.add_metric((*key, state), getattr(stats, state))
            waiting.add_metric(key, stats.waiting)
            paused.add_metric(key, int(stats.paused))
            leasable.add_metric(key, stats.leasable)
            oldest.add_metric(key, stats.oldest_age_seconds or 0.0)
            if stats.service_seconds is not None:
                service.add_metric(key, stats.service_seconds)
            for reason, count in stats.blocked.items():
                blocked.add_metric((*key, reason), count)
        yield from (tasks, waiting, leasable, blocked, oldest, paused, service)

    def _totals(self) -> Iterator[Metric]:
        events = CounterMetricFamily(
            "leadsman_tasks", "What happened to tasks since the queue was first seen", labels=(*_QUEUE, "event")
        )
        tokens = CounterMetricFamily("leadsman_usage_tokens", "Tokens that attempts reported", labels=_QUEUE)
        cost = CounterMetricFamily("leadsman_usage_cost", "Money that attempts reported", labels=_QUEUE)
        lost = "of attempts that had lost their lease"
        lost_tokens = CounterMetricFamily("leadsman_lost_usage_tokens", f"Tokens {lost}", labels=_QUEUE)
        lost_cost = CounterMetricFamily("leadsman_lost_usage_cost", f"Money {lost}", labels=_QUEUE)
        endings = CounterMetricFamily(
            "leadsman_tasks_ended",
            "Tasks that ended without completing since the broker started, by reason",
            labels=(*_QUEUE, "reason"),
        )
        refusals = CounterMetricFamily(
            "leadsman_refusals",
            "Submitted tasks that were refused since the broker started, by code",
            labels=(*_QUEUE, "code"),
        )
        for key in self._engine.core.queue_keys():
            for reason, count in self._engine.core.endings(key).items():
                endings.add_metric((*key, reason), count)
            for code, count in self._engine.core.refusals(key).items():
                refusals.add_metric((*key, code), count)
            totals = self._engine.core.totals(key)._asdict()
            for family, field, unit in (
                (tokens, "tokens", 1),
                (cost, "cost_micros", 1_000_000),
                (lost_tokens, "lost_tokens", 1),
                (lost_cost, "lost_cost_micros", 1_000_000),
            ):
                family.add_metric(key, totals.pop(field) / unit)
            for event, count in totals.items():
                events.add_metric((*key, event), count)
        yield from (events, endings, refusals, tokens, cost, lost_tokens, lost_cost)

    def _budgets(self) -> Iterator[Metric]:
        labels = (*_QUEUE, "part")
        what = "of a queue's budget in its present window, settled, reserved and at most"
        tokens = GaugeMetricFamily("leadsman_budget_tokens", f"Tokens {what}", labels=labels)
        cost = GaugeMetricFamily("leadsman_budget_cost", f"Money {what}", labels=labels)
        for key in self._engine.core.queue_keys():
            budget = self._engine.core.budget(key)
            if budget is None:
                continue
            account = budget.accounts().get(None) or Account(budget.starts_at)
            caps = budget.caps(None)
            for family, field, unit in ((tokens, 0, 1), (cost, 1, 1_000_000)):
                cap = caps[field]
                if cap is not None:
                    family.add_metric((*key, "settled"), account.settled[field] / unit)
                    family.add_metric((*key, "reserved"), account.reserved[field] / unit)
                    family.add_metric((*key, "max"), cap / unit)
        yield from (tokens, cost)

    def _runs(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "leadsman_runs", "Runs that have live tasks or wait for their deadline", labels=("namespace", "state")
        )
        for label, count in self._engine.core.run_counts().items():
            family.add_metric(label, count)
        yield family

    def _workers(self) -> Iterator[Metric]:
        workers: Tally[tuple[str, str]] = Tally()
        slots: Tally[tuple[str, str]] = Tally()
        leases: Tally[tuple[str, str]] = Tally()
        now = self._engine.clock.now()
        for key in self._engine.core.worker_keys():
            stats = self._engine.core.worker_stats(key, now)
            if stats is not None:
                label = (stats.namespace, stats.state.value)
                workers[label] += 1
                slots[label] += stats.slots
                leases[label] += stats.leases
        for name, what, tally in (
            ("leadsman_workers", "Workers known", workers),
            ("leadsman_worker_slots", "Slots of the workers known", slots),
            ("leadsman_worker_leases", "Leases of the workers known", leases),
        ):
            family = GaugeMetricFamily(
                name, f"{what}, by what the broker wants of them", labels=("namespace", "state")
            )
            for label, count in tally.items():
                family.add_metric(label, count)
            yield family

    def _engine_state(self) -> Iterator[Metric]:
        engine = self._engine
        yield GaugeMetricFamily("leadsman_parked_lease_calls", "Lease calls that wait", engine.parked)
        yield GaugeMetricFamily("leadsman_queued_requests", "Requests that wait for the next batch", engine.queued)
        yield GaugeMetricFamily("leadsman_stream_readers", "Readers of the stats stream", engine.feed.readers)
        yield CounterMetricFamily(
            "leadsman_stream_readers_dropped", "Readers that did not keep up", engine.feed.dropped
        )
        fences = len(engine.core.fence_stats(engine.clock.now()))
        yield GaugeMetricFamily("leadsman_fences", "Fences in force", fences)
        cordons = len(engine.core.cordon_stats(engine.clock.now()))
        yield GaugeMetricFamily("leadsman_cordons", "Cordons in force", cordons)
        build = GaugeMetricFamily("leadsman_broker_info", "The running broker", labels=("version", "epoch"))
        build.add_metric((__version__, engine.feed.epoch), 1)
        yield build

    def _space(self) -> Iterator[Metric]:
        space = self._store.space()
        yield GaugeMetricFamily(
            "leadsman_store_low", "1 while new work is refused for lack of room", int(space.low)
        )
        yield GaugeMetricFamily(
            "leadsman_store_log_bytes", "Size of the log that is not yet part of the data", space.log_bytes
        )
        yield GaugeMetricFamily(
            "leadsman_store_log_held_seconds",
            "How long another program's open read has kept the log from being emptied; 0 when none does",
            space.log_held_seconds,
        )
        if space.free_bytes is not None:
            yield GaugeMetricFamily("leadsman_store_free_bytes", "Room the store has left", space.free_bytes)
