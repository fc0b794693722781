"""A scenario: everything a simulation is told, in one YAML file.

Capabilities and pools are written as in the custom resources' specs, so that a setting can be tried before it meets
a cluster. Times are seconds from the start of the simulation.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from leadsman.wire.tasks import TaskClass
from leadsman_local.simulator.arrivals import Arrival
from leadsman_local.simulator.base import ScenarioModel
from leadsman_local.simulator.distributions import Distribution, NotNegative, Positive
from leadsman_local.simulator.ticks_model import Ticks, TickTask
from leadsman_local.yaml_lines import Document, read
from leadsman_operator.api import Capability, WorkerPool
from leadsman_operator.api.capability import BudgetRules, CapabilitySpec

Share = Annotated[float, Field(ge=0, le=1)]
DAY_SECONDS = 86_400.0
DEFAULT_SAMPLES = 1_440
_DEFAULT_LOOKS = 17_280


class Work(ScenarioModel):
    """What the tasks of one capability are like."""

    seconds: Distribution = Distribution(constant=1.0)
    """How long an attempt takes at normal speed."""
    fails: Share = 0.0
    """Share of attempts that end in an error."""
    crashes: Share = 0.0
    """Share of attempts in which the worker's process dies."""
    hangs: Share = 0.0
    """Share of attempts that never end while the worker renews the lease."""
    provider: str | None = None
    """Who is called at the start of each attempt; a name of `providers`."""
    tokens: Distribution = Distribution(constant=0.0)
    """What an attempt uses."""
    cost_micros: Distribution = Distribution(constant=0.0)
    """What an attempt costs, in millionths of the money's unit."""


class Outage(ScenarioModel):
    """A time in which a provider answers nobody."""

    from_seconds: NotNegative
    until_seconds: NotNegative


class Provider(ScenarioModel):
    """Something that tasks call and that has limits of its own."""

    requests_per_minute: Positive | None = None
    """More are answered with a 429."""
    concurrent: Annotated[int, Field(ge=1)] | None = None
    """More at once are answered with a 429."""
    retry_after_seconds: Positive = 30.0
    """What a 429 says; the task is given back with this delay."""
    outages: tuple[Outage, ...] = ()
    """While one lasts, an attempt fails after `failsAfterSeconds`."""
    fails_after_seconds: NotNegative = 10.0


class NodeLoss(ScenarioModel):
    """A node dies with everything on it."""

    at_seconds: NotNegative
    nodes: Annotated[int, Field(ge=1)] = 1


class Cluster(ScenarioModel):
    """What the pods run on."""

    startup_seconds: Distribution = Distribution(constant=30.0)
    """From the creation of a pod to its first call for work."""
    restart_seconds: Distribution = Distribution(constant=5.0)
    """From a crash to the next call for work."""
    readiness_seconds: NotNegative = 1.0
    """How long a pod's readiness takes to follow its worker."""
    start_fails: Share = 0.0
    """Share of starts that come to nothing and are tried again."""
    pods_per_node: Annotated[int, Field(ge=1)] = 10
    node_losses: tuple[NodeLoss, ...] = ()
    node_noticed_seconds: NotNegative = 40.0
    """How long until a dead node's pods are made anew."""
    slow_workers: Share = 0.0
    slow_factor: Annotated[float, Field(ge=1, le=1000)] = 3.0
    """How many times as long a slow worker takes."""
    grace_seconds: NotNegative | None = None
    """How long a busy pod that is deleted may go on. Default: the pool's `drain.graceSeconds`."""


class Sizing(StrEnum):
    """Who sizes the fleets."""

    LEADSMAN = "Leadsman"
    FIXED = "Fixed"
    KEDA_HPA = "KedaHpa"


class KedaHpa(ScenarioModel):
    """KEDA with a horizontal pod autoscaler; the defaults are theirs."""

    polling_seconds: Positive = 30.0
    """How often KEDA looks whether a fleet at zero is to wake."""
    cooldown_seconds: NotNegative = 300.0
    """How long nothing must be there before it goes to zero."""
    target_per_replica: Positive = 5.0
    """Tasks one replica is to answer for (a KEDA trigger's queue length)."""
    count_in_flight: bool = True
    """Whether tasks in the hands of workers count as queue length; most KEDA queue scalers count them."""
    sync_seconds: Positive = 15.0
    """How often the autoscaler looks."""
    tolerance: Share = 0.1
    up_pods: Annotated[int, Field(ge=1)] = 4
    up_percent: Annotated[int, Field(ge=1)] = 100
    """At most the greater of the two may be added in `upPeriodSeconds`."""
    up_period_seconds: Positive = 15.0
    down_window_seconds: NotNegative = 300.0
    """It shrinks to the greatest number recommended within this time."""
    grace_seconds: NotNegative = 30.0
    """A pod's termination grace unless it is set: what a busy worker that is deleted has left."""


class Scaler(ScenarioModel):
    """How the fleets are sized."""

    by: Sizing = Sizing.LEADSMAN
    replicas: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """With Fixed: the size of every fleet. Default: its maxReplicas."""
    every_seconds: Annotated[float, Field(ge=0, le=15)] | None = None
    """With Leadsman: looks at the fleets are at least this far apart, unless a fleet of zero has work. Default: 1,
    and more for what lasts longer than five hours (5 for a day): a look costs more than all else."""
    keda: KedaHpa = KedaHpa()

    def looks_apart(self, duration_seconds: float) -> float:
        """Return `everySeconds`, the default filled in."""
        if self.every_seconds is not None:
            return self.every_seconds
        return min(15.0, max(1.0, duration_seconds / _DEFAULT_LOOKS))


class Broker(ScenarioModel):
    """Details of the broker that a comparison may want without chance."""

    reclaim_jitter: Share = 0.2
    backoff_jitter: Share = 0.25


class Scenario(ScenarioModel):
    """What is simulated."""

    name: str = ""
    seed: int = 1
    """Equal seeds give equal runs."""
    duration_seconds: Annotated[float, Field(gt=0, le=3.2e7)] = DAY_SECONDS
    manifests: tuple[str, ...] = ()
    """Files of Capability and WorkerPool objects, beside the scenario; what stands here goes before them."""
    capabilities: dict[str, CapabilitySpec] = {}
    """Name -> spec of a Capability."""
    pools: dict[str, dict[str, Any]] = {}
    """Name -> spec of a WorkerPool; it needs no image."""
    work: dict[str, Work] = {}
    """Capability -> what its tasks are like."""
    arrivals: tuple[Arrival, ...] = ()
    providers: dict[str, Provider] = {}
    cluster: Cluster = Cluster()
    scaler: Scaler = Scaler()
    broker: Broker = Broker()
    sample_seconds: Positive | None = None
    """How far apart the points of the curves are. Default: 1,440 points."""
    ticks: Ticks | None = None
    """Play a script in ticks instead: see docs/simulator.md."""
    tasks: tuple[TickTask, ...] = ()
    """With `ticks`: the tasks, in order."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.ticks is None and self.tasks:
            raise ValueError("tasks go with ticks; without ticks, say when tasks come in arrivals")
        return self


class Plan:
    """A scenario with its objects: what the simulation is built from."""

    def __init__(
        self, scenario: Scenario, capabilities: dict[str, Capability], pools: dict[str, WorkerPool], folder: Path
    ) -> None:
        self.scenario = scenario
        self.capabilities = capabilities
        self.pools = pools
        self.folder = folder
        """Where files that the scenario names are looked for."""

    def with_values(self, values: dict[str, Any]) -> "Plan":
        """Return the plan with some fields changed; keys are paths such as `pools.browser.maxReplicas`."""
        data = self.scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for path, value in values.items():
            _put(data, path, value)
        document = Document(Path("the changed scenario"), data, {})
        return plan_of(document, self.folder, self.capabilities, self.pools)


def load(path: Path) -> Plan:
    """Read a scenario. Raises ConfigurationError that names the line and the field."""
    documents = read(path)
    if len(documents) != 1:
        raise Document(path, None, {}).wrong((), f"a scenario is one document, this file has {len(documents)}")
    return plan_of(documents[0], path.parent, {}, {})


def plan_of(
    document: Document, folder: Path, capabilities: dict[str, Capability], pools: dict[str, WorkerPool]
) -> Plan:
    """Build the plan of a scenario document on top of objects that are known already."""
    scenario = document.parse(Scenario)
    capabilities, pools = dict(capabilities), dict(pools)
    for number, name in enumerate(scenario.manifests):
        _add_manifest(document, ("manifests", number), folder / name, capabilities, pools)
    for name, spec in scenario.capabilities.items():
        capabilities[name] = Capability.model_validate({"metadata": {"name": name}}).model_copy(
            update={"spec": spec}
        )
    for name, raw in scenario.pools.items():
        known = (
            pools[name].model_dump(mode="json", by_alias=True, exclude_unset=True)["spec"] if name in pools else {}
        )
        made = Document(
            document.path,
            {"metadata": {"name": name}, "spec": {**known, **raw}},
            {("spec", *place[2:]): line for place, line in document.lines.items() if place[:2] == ("pools", name)},
        )
        pools[name] = made.parse(WorkerPool)
    _check(document, scenario, capabilities, pools)
    return Plan(scenario, capabilities, pools, folder)


def _add_manifest(
    document: Document,
    place: tuple[str, int],
    path: Path,
    capabilities: dict[str, Capability],
    pools: dict[str, WorkerPool],
) -> None:
    for found in read(path):
        kind = found.data.get("kind") if isinstance(found.data, dict) else None
        if kind == "Capability":
            capability = found.parse(Capability)
            capabilities[capability.metadata.name] = capability
        elif kind == "WorkerPool":
            pool = found.parse(WorkerPool)
            pools[pool.metadata.name] = pool
        else:
            raise document.wrong(place, f"{path} holds a {kind}; only Capability and WorkerPool are read")


def _check(
    document: Document, scenario: Scenario, capabilities: dict[str, Capability], pools: dict[str, WorkerPool]
) -> None:
    if not capabilities:
        raise document.wrong((), "give at least one capability")
    for name, capability in capabilities.items():
        _check_budget(document, name, capability.spec.budget)
    for name, work in scenario.work.items():
        if name not in capabilities:
            raise document.wrong(("work", name), f"there is no capability {name}")
        if work.provider is not None and work.provider not in scenario.providers:
            raise document.wrong(("work", name, "provider"), f"there is no provider {work.provider}")
    for number, arrival in enumerate(scenario.arrivals):
        if arrival.capability is not None and arrival.capability not in capabilities:
            raise document.wrong(("arrivals", number, "capability"), f"there is no capability {arrival.capability}")
    for number, task in enumerate(scenario.tasks):
        if task.capability not in capabilities:
            raise document.wrong(("tasks", number, "capability"), f"there is no capability {task.capability}")
    for name, pool in pools.items():
        missing = [each for each in pool.capabilities if each not in capabilities]
        if missing:
            raise document.wrong(("pools", name, "capabilities"), f"there is no capability {', '.join(missing)}")
        if pool.spec.min_replicas > pool.spec.max_replicas:
            raise document.wrong(("pools", name, "minReplicas"), "minReplicas may not be above maxReplicas")


def _check_budget(document: Document, name: str, budget: BudgetRules | None) -> None:
    """Refuse what the API server would refuse: a budget of something of which no attempt's use is estimated."""
    if budget is None:
        return
    place = ("capabilities", name, "budget")
    amounts = (budget, budget.per_tenant)
    for field in ("tokens", "money"):
        capped = any(each is not None and getattr(each, field) is not None for each in amounts)
        if capped and getattr(budget.estimate, field) is None:
            raise document.wrong((*place, "estimate"), f"a budget of {field} needs estimate.{field}")


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        data = data.setdefault(part, {})
    data[last] = value


__all__ = ["Plan", "Scenario", "TaskClass", "load"]
