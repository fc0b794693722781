"""The bounds between what the work asks for and what is done, each named when it changes the number.

In this order: what makes more workers useless or impossible, `minReplicas`, `maxReplicas`, the steps and, for fewer
workers, everything that makes a fleet wait before it shrinks.
"""

from dataclasses import dataclass, field

from leadsman.reasons import Reason
from leadsman_operator.scaling.census import Census, capabilities_in_vain
from leadsman_operator.scaling.demand import replicas_for
from leadsman_operator.scaling.model import (
    IDLE_WHILE_WAITING_SECONDS,
    ZERO_SECONDS,
    Clamp,
    PoolMemory,
    PoolObservation,
    PoolSpec,
    ScalingPolicy,
    Signal,
)
from leadsman_operator.scaling.window import highest


@dataclass(slots=True)
class Limiter:
    """Applies bounds one after the other and keeps those that changed the number."""

    spec: PoolSpec
    observation: PoolObservation
    signal: Signal
    memory: PoolMemory
    """As it is after this sample."""
    counts: Census
    now: float
    replicas: int
    clamps: list[Clamp] = field(default_factory=list)

    def apply(self) -> None:
        """Apply all of them."""
        if self.replicas > self.observation.replicas:
            self._useless()
        self._bounds()
        if self.replicas > self.observation.replicas:
            self._scale_out_step()
        elif self.replicas < self.observation.replicas:
            self._keep_in_sight()
            self._wait()
            self._scale_in_step()
            self._not_in_a_rollout()
        if self.observation.conflict:
            self._to(self.observation.replicas, Reason.CONFLICT, "somebody else writes the replicas")

    def _to(self, replicas: int, reason: Reason, note: str) -> None:
        if replicas != self.replicas:
            self.clamps.append(Clamp(reason, self.replicas, replicas, note))
            self.replicas = replicas

    def _useless(self) -> None:
        """Stay where more workers would not run or would not help."""
        current, counts = self.observation.replicas, self.counts
        if counts.mostly_failing:
            self._to(current, Reason.WORKERS_FAILING, f"{counts.failing} of {counts.pods} pods fail to start")
        if self.observation.quota_exceeded:
            self._to(current, Reason.QUOTA_EXCEEDED, f"a quota allows {counts.pods} of {current} pods")
        since = self.memory.idle_while_waiting_since
        if since is not None and self.now - since >= IDLE_WHILE_WAITING_SECONDS:
            self._to(
                current,
                Reason.WORKERS_IDLE_WHILE_TASKS_WAIT,
                f"free slots have stayed free for {self.now - since:.0f} s while tasks wait",
            )

    def _bounds(self) -> None:
        low, high = self.spec.min_replicas, self.spec.max_replicas
        if self.replicas < low:
            self._to(low, Reason.AT_MIN_REPLICAS, self.spec.floor)
        if self.replicas > high:
            self._to(high, Reason.AT_MAX_REPLICAS, self.spec.ceiling)

    def _scale_out_step(self) -> None:
        step = self.spec.scale_out_max_step
        if step is None:
            return
        current, starting = self.observation.replicas, self.counts.starting
        allowed = max(current, self.spec.min_replicas, current - starting + step)
        if self.replicas > allowed:
            self._to(allowed, Reason.SCALE_OUT_STEP, f"at most {step} start at once, {starting} are starting")

    def _wait(self) -> None:
        """Stay, or shrink less far, until it is certain that the workers are not needed."""
        current, idle = self.observation.replicas, self.spec.scale_in_idle_seconds
        if self.spec.policy is ScalingPolicy.TARGET:
            most = highest(self.memory.window)
            needed = min(max(replicas_for(most, self.spec), self.spec.min_replicas), self.spec.max_replicas)
            if needed > self.replicas:
                self._to(
                    min(current, needed),
                    Reason.SCALE_IN_WINDOW,
                    f"{most} slots were wanted within the last {idle} s",
                )
        known = self.now - self.known_since
        if known < idle:
            self._to(current, Reason.SCALE_IN_WINDOW, f"the work is known for {known:.0f} of {idle} s")
        zero = self.memory.zero_since
        if zero is not None and self.now - zero < ZERO_SECONDS:
            self._to(current, Reason.SCALE_IN_WINDOW, f"no work for {self.now - zero:.1f} of {ZERO_SECONDS:.0f} s")

    def _keep_in_sight(self) -> None:
        """Keep what shows that more workers are of no use, while tasks wait for the pool and are not given to it.

        Were it gone, the fleet would be made again, to no more use, and go again, once in every idle window.
        """
        current, counts = self.observation.replicas, self.counts
        kept = min(current, self.spec.max_replicas)
        waiting = sum(work.elsewhere for work in self.observation.work)
        if waiting and counts.mostly_failing:
            note = f"{counts.failing} of {counts.pods} pods fail to start, {waiting} tasks wait"
            self._to(kept, Reason.WORKERS_FAILING, note)
        if waiting and self.observation.quota_exceeded:
            self._to(kept, Reason.QUOTA_EXCEEDED, f"a quota allows {counts.pods} of {current} pods")
        names = capabilities_in_vain(self.spec, self.observation)
        if names and not self.replicas and kept:
            note = f"no worker takes {', '.join(names)}; one stays to show it while tasks wait there"
            self._to(1, Reason.CAPABILITY_NOT_SERVED, note)

    def _not_in_a_rollout(self) -> None:
        """Stay while a rollout goes on, unless all are to go: it chooses its own pods."""
        if self.observation.rollout_in_progress and self.replicas > 0:
            self._to(self.observation.replicas, Reason.ROLLOUT_IN_PROGRESS, "a rollout chooses its own pods")

    def _scale_in_step(self) -> None:
        step = self.spec.scale_in_max_step
        if step is None or self.replicas >= self.observation.replicas - step:
            return
        self._to(self.observation.replicas - step, Reason.SCALE_IN_STEP, f"at most {step} leave at once")

    @property
    def known_since(self) -> float:
        """Since when the demand is known without a gap, by one leader, from one broker epoch."""
        since = self.memory.since
        return self.signal.unbroken_since if since is None else max(since, self.signal.unbroken_since)

    def recheck_seconds(self, recommended: int) -> float | None:
        """Give the time after which these bounds may say something else though nothing changed."""
        times: list[float] = []
        since = self.memory.idle_while_waiting_since
        if since is not None:
            times.append(since + IDLE_WHILE_WAITING_SECONDS)
        if recommended < self.observation.replicas:
            times.append(self.known_since + self.spec.scale_in_idle_seconds)
            times += [each.at + self.spec.scale_in_idle_seconds for each in self.memory.window[:1]]
            if self.memory.zero_since is not None:
                times.append(self.memory.zero_since + ZERO_SECONDS)
        ahead = [time - self.now for time in times if time > self.now]
        return min(ahead, default=None)
