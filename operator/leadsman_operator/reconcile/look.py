"""Everything that one look at a pool has found, passed from deciding to acting to telling."""

from dataclasses import dataclass

from leadsman_operator.reconcile.observe import Surroundings
from leadsman_operator.reconcile.pools import Pool
from leadsman_operator.reconcile.record import PoolRecord
from leadsman_operator.reconcile.workload import Standing
from leadsman_operator.scaling.model import Decision, PoolObservation


@dataclass(frozen=True, slots=True)
class Look:
    """One look; only `record` outlives it."""

    pool: Pool
    record: PoolRecord
    around: Surroundings
    standing: Standing
    observation: PoolObservation
    decision: Decision
