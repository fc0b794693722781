"""A whole cluster: the control plane and one node."""

from .control_plane import ControlPlane


class Cluster(ControlPlane):
    """A control plane with a node that runs pods."""
