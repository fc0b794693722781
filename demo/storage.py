"""A volume for the broker: the default class of the cluster, if it has one, else a folder of our own node."""

import json
from collections.abc import Callable

from cluster import Cluster
from demo.ground import CLUSTER, Ground

_CLASS = "leadsman-demo"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def chart_values(ground: Ground, kubectl: Callable[..., str]) -> dict[str, object]:
    """Return the chart's `broker.persistence`, after making a volume where the cluster makes none by itself."""
    classes = json.loads(kubectl("get", "storageclasses", "--output", "json"))["items"]
    if any(one["metadata"].get("annotations", {}).get(_DEFAULT) == "true" for one in classes):
        return {}
    if ground.kind != "built":
        return {"enabled": False}
    built = Cluster.attach(CLUSTER)
    folder = built.run.folder / "broker-volume"
    folder.mkdir(exist_ok=True)
    kubectl("apply", "-f", "-", stdin=json.dumps(_volume(str(folder), built.node.name)))
    return {"storageClassName": _CLASS}


def _volume(path: str, node: str) -> dict[str, object]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _CLASS},
        "spec": {
            "storageClassName": _CLASS,
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
