"""A real Kubernetes on this computer for the tests and the demo, without Docker and without a registry.

Why a package and not a script: the same cluster is started by pytest fixtures, by the demo and by
hand (``python -m cluster``), and all three must clear up after each other.
"""

from .cluster import Cluster
from .control_plane import ControlPlane
from .errors import ClusterError, UnavailableError

__all__ = ["Cluster", "ClusterError", "ControlPlane", "UnavailableError"]
