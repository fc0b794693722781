"""What a person sees of local mode: events, the status of each pool, metrics - in the operator's words."""

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadsman.reasons import Reason
from leadsman_local.scaler import Look
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.conditions import Found, conditions
from leadsman_operator.reconcile.status import pool_status
from leadsman_operator.scaling.scale_in import Idle


class Telling:
    """Prints events, keeps `status.json`, `workers.json` and the metrics up to date."""

    def __init__(self, namespace: str, folder: Path) -> None:
        self.metrics = Metrics()
        self._namespace = namespace
        self._folder = folder
        self._status: dict[str, dict[str, Any]] = {}
        self._roster: Mapping[str, list[dict[str, object]]] | None = None
        self._verdicts: dict[tuple[str, str], str] = {}

    def say(self, text: str) -> None:
        """Print a line that is no event."""
        print(text, flush=True)

    def event(self, pool: str, reason: EventReason | Reason | str, note: str) -> None:
        """Print an event about a pool."""
        word = reason.value if isinstance(reason, EventReason | Reason) else reason
        at = dt.datetime.now().astimezone().strftime("%H:%M:%S")
        print(f"{at}  {pool:12} {word:20} {note}", flush=True)

    def looked(self, found: Look, *, failing: dict[str, int]) -> None:
        """Take in what a look found: conditions that changed are told, the status is written."""
        name = found.pool.name
        waits_for = found.pool.scale_in.waits_for if isinstance(found.pool.scale_in, Idle) else ""
        verdicts = conditions(
            Found(
                spec=found.pool.spec, observation=found.observation, decision=found.decision,
                deployment=name, failing=failing, scale_in_waits_for=waits_for,
            )
        )  # fmt: skip
        for verdict in verdicts:
            word = f"{verdict.status.value} {verdict.reason.value}"
            before = self._verdicts.get((name, verdict.type.value))
            self._verdicts[name, verdict.type.value] = word
            told = verdict.type.value == "Ready" or verdict.reason in _WORTH_TELLING
            if before is not None and before != word and told:
                self.event(name, verdict.reason, verdict.message)
        labels = (self._namespace, name)
        self.metrics.desired_replicas.labels(*labels).set(found.decision.replicas)
        self.metrics.replicas.labels(*labels).set(found.observation.replicas)
        self.metrics.decisions.labels(*labels, found.decision.action.value, found.decision.reason.value).inc()
        for clamp in found.decision.clamps:
            self.metrics.clamps.labels(*labels, clamp.reason.value).inc()
        for verdict in verdicts:
            self.metrics.condition.labels(*labels, verdict.type.value).set(verdict.status.value == "True")
        before_status = self._status.get(name, {})
        status = pool_status(
            name=name,
            generation=1,
            deployment={"status": {"replicas": len(found.observation.pods)}},
            observation=found.observation,
            decision=found.decision,
            verdicts=verdicts,
            before=before_status,
            now=dt.datetime.now(dt.UTC),
        )
        if status != before_status:
            self._status[name] = status
            self._write("status", self._status)

    def workers(self, roster: Mapping[str, list[dict[str, object]]]) -> None:
        """Take in which processes there are, by pool."""
        if roster != self._roster:
            self._roster = roster
            self._write("workers", roster)

    def _write(self, name: str, found: object) -> None:
        fresh = self._folder / f"{name}.new"
        fresh.write_text(json.dumps(found, indent=1))
        fresh.replace(self._folder / f"{name}.json")


_WORTH_TELLING = frozenset(
    {
        Reason.AT_MAX_REPLICAS,
        Reason.WORKERS_FAILING,
        Reason.WORKERS_IDLE_WHILE_TASKS_WAIT,
        Reason.CAPABILITY_NOT_SERVED,
        Reason.SIGNAL_LOST,
        Reason.POOL_PAUSED,
        Reason.OBSERVING,
    }
)
