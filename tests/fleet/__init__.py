"""A fleet without containers: a node's kubelet and its workers, played by one asyncio loop on a real control plane.

Everything around it is real: API server, controller manager, scheduler and broker. Only what a kubelet and a worker
process would do is done here, over the same HTTP calls they make, so that sixty pods fit on two cores and every
lease and every deletion is written down by somebody who is neither the operator nor the broker.
"""

from .broker import BrokerClient, BrokerRefusedError
from .churn import churning
from .fleet import Behaviour, DeletedPod, Fleet
from .history import ReplicaHistory, recorded
from .kube import Kube, KubeError
from .operator_process import OperatorProcess, OperatorStartError
from .waiting import until
from .worker import Book, Pace, Worker

__all__ = [
    "Behaviour",
    "Book",
    "BrokerClient",
    "BrokerRefusedError",
    "DeletedPod",
    "Fleet",
    "Kube",
    "KubeError",
    "OperatorProcess",
    "OperatorStartError",
    "Pace",
    "ReplicaHistory",
    "Worker",
    "churning",
    "recorded",
    "until",
]
