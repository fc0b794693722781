"""Providers that tasks call: rate, concurrency and outages."""

from dataclasses import dataclass, field
from enum import Enum

from leadsman_local.simulator.scenario import Provider


class Reply(Enum):
    """How a provider answers at the start of an attempt."""

    OK = "ok"
    TOO_MANY = "429"
    DEAD = "dead"


@dataclass(slots=True)
class VirtualProvider:
    """A bucket of requests that refills at the stated rate and holds two seconds' worth, at least one."""

    rules: Provider
    in_flight: int = 0
    refused: int = 0
    failed: int = 0
    _tokens: float = field(init=False)
    _at: float = 0.0

    def __post_init__(self) -> None:
        self._tokens = self._size

    def ask(self, now: float) -> Reply:
        """Begin a request; an `OK` must be ended with `done`."""
        rules = self.rules
        if any(outage.from_seconds <= now < outage.until_seconds for outage in rules.outages):
            self.failed += 1
            return Reply.DEAD
        if rules.concurrent is not None and self.in_flight >= rules.concurrent:
            self.refused += 1
            return Reply.TOO_MANY
        if rules.requests_per_minute is not None:
            rate = rules.requests_per_minute / 60.0
            self._tokens = min(self._size, self._tokens + (now - self._at) * rate)
            self._at = now
            if self._tokens < 1:
                self.refused += 1
                return Reply.TOO_MANY
            self._tokens -= 1
        self.in_flight += 1
        return Reply.OK

    def done(self) -> None:
        """End a request."""
        self.in_flight -= 1

    @property
    def _size(self) -> float:
        return max(1.0, (self.rules.requests_per_minute or 0.0) / 30.0)
