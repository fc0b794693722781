"""Building blocks of the scaling tests: observations in few words, and a ReplicaSet controller that lags."""

from .build import healthy, observe, pods, pool, seen_for, work, workers
from .laggards import World

__all__ = ["World", "healthy", "observe", "pods", "pool", "seen_for", "work", "workers"]
