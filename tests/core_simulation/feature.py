"""What a part of the simulation is made of."""

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Step
from leadsman_broker.core.results import Granted

if TYPE_CHECKING:
    from core_simulation.world import Hand, World

Action = Callable[[Random], None]


class Feature:
    """A plug-in: a module in `features` with a class named FEATURE that overrides what it needs.

    `dice` decides everything; nothing else may be random. An action that finds nothing to act on does nothing.
    A violation is an AssertionError that says what was broken.
    """

    def __init__(self, world: "World") -> None:
        self.world = world

    def rules(self, capability: str, dice: Random) -> dict[str, Any]:
        """Fields of the capability's configuration, drawn once per world."""
        return {}

    def actions(self) -> Iterable[tuple[int, Action]]:
        """What may happen in a step, with weights; ten is an ordinary one."""
        return ()

    def before(self, commands: list[c.Command]) -> None:
        """Look at the world in front of a step of the broker."""

    def committed(self, step: Step) -> None:
        """Take note of a step that is durable, whether or not its replies arrive."""

    def granted(self, hand: "Hand", lease: Granted, *, repeated: bool) -> None:
        """Take note of a lease that a worker was given; `repeated`: it was told again."""

    def restarted(self) -> None:
        """Take note of a new broker process."""

    def reconfigured(self, rules: dict[str, CapabilityConfig]) -> None:
        """Take note of the rules in force."""

    def check(self) -> None:
        """Raise AssertionError when an invariant does not hold. Called after every step of the broker."""

    def heal(self) -> None:
        """Lift what holds work back, at the end: then everything that was accepted must come to an end."""
