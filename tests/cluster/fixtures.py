"""pytest fixtures: import the ones a tier needs into its conftest.py.

    from cluster.fixtures import cluster, control_plane, namespace  # noqa: F401

A tier that this machine cannot run is skipped with the exact reason. ``LEADSMAN_CLUSTER=NAME`` uses
the cluster that ``python -m cluster up --name NAME`` left running, which saves the start while
writing tests.
"""

import os
from collections.abc import Iterator

import pytest

from .cluster import Cluster
from .control_plane import ControlPlane
from .errors import UnavailableError
from .images import Image, project_image

_ATTACH = "LEADSMAN_CLUSTER"


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A real API server, scheduler and controller manager without nodes: pods are made but never run."""
    name = os.environ.get(_ATTACH)
    if name:
        yield ControlPlane.attach(name)
        return
    try:
        started = ControlPlane.start()
    except UnavailableError as reason:
        pytest.skip(f"no control plane here: {reason}")
    with started:
        yield started


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real cluster with one node that runs pods from real images (root on Linux)."""
    name = os.environ.get(_ATTACH)
    if name:
        yield Cluster.attach(name)
        return
    try:
        started = Cluster.start()
    except UnavailableError as reason:
        pytest.skip(f"no node here: {reason}")
    with started:
        yield started


@pytest.fixture(scope="session")
def leadsman_image(cluster: Cluster) -> Image:
    """The project's own image, built from this checkout and known to the cluster as ``image.tag``."""
    image = project_image("leadsman:dev")
    cluster.load_image(image)
    return image


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of the control plane for one test alone."""
    with control_plane.namespace() as name:
        yield name
