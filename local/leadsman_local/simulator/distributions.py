"""Durations and amounts that vary: a number, or a distribution by name."""

import math
from random import Random
from typing import Annotated, Any

from pydantic import Field, model_validator

from leadsman_local.simulator.base import ScenarioModel

Positive = Annotated[float, Field(gt=0, le=1e9)]
NotNegative = Annotated[float, Field(ge=0, le=1e9)]


class Exponential(ScenarioModel):
    """Memoryless, as in the queueing formulas."""

    mean: Positive


class Lognormal(ScenarioModel):
    """Most values near the median and a long tail, as model calls have it."""

    median: Positive
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.5
    """Of the logarithm: 0.5 puts the 95th percentile at 2.3 times the median, 1 at 5.2 times."""


class Uniform(ScenarioModel):
    """Any value between two bounds."""

    least: NotNegative
    most: NotNegative


class Pareto(ScenarioModel):
    """A heavy tail, cut off at `most`."""

    least: Positive
    alpha: Annotated[float, Field(gt=0, le=100)]
    most: Positive


class Weighted(ScenarioModel):
    """One kind among several."""

    weight: Positive = 1.0
    value: "Distribution"


class Distribution(ScenarioModel):
    """Exactly one of these; a bare number is a constant."""

    constant: NotNegative | None = None
    exponential: Exponential | None = None
    lognormal: Lognormal | None = None
    uniform: Uniform | None = None
    pareto: Pareto | None = None
    one_of: Annotated[tuple[Weighted, ...], Field(min_length=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return {"constant": value} if isinstance(value, int | float) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _exactly_one(self) -> "Distribution":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "give a number or exactly one of constant, exponential, lognormal, uniform, pareto and oneOf"
            )
        return self

    def draw(self, rng: Random) -> float:
        """Return one value."""
        if self.constant is not None:
            return self.constant
        if self.exponential is not None:
            return rng.expovariate(1.0 / self.exponential.mean)
        if self.lognormal is not None:
            return rng.lognormvariate(math.log(self.lognormal.median), self.lognormal.sigma)
        if self.uniform is not None:
            return rng.uniform(self.uniform.least, self.uniform.most)
        if self.pareto is not None:
            return min(self.pareto.most, self.pareto.least * rng.paretovariate(self.pareto.alpha))
        kinds = self.one_of or ()
        (kind,) = rng.choices(kinds, weights=[each.weight for each in kinds])
        return kind.value.draw(rng)
