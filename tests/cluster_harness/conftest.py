from cluster.fixtures import cluster, control_plane, namespace

__all__ = ["cluster", "control_plane", "namespace"]
