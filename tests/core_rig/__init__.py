"""A core with a memory store and a clock that tests turn: a broker without a server."""

from core_rig.checks import check, heads_of, picture
from core_rig.rig import CAPABILITY, NAMESPACE, Rig

__all__ = ["CAPABILITY", "NAMESPACE", "Rig", "check", "heads_of", "picture"]
