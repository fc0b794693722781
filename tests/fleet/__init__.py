"""A fleet without containers: a node's kubelet and its workers, played by one asyncio loop on a real control plane.

Everything around it is real: API server, controller manager, scheduler and broker. Only what a kubelet and a worker
process would do is done here, over the same HTTP calls they make, so that sixty pods fit on two cores and every
lease and every deletion is written down by somebody who is neither the operator nor the broker.
"""

from .kube import Kube, KubeError
from .operator_process import OperatorProcess, OperatorStartError

__all__ = ["Kube", "KubeError", "OperatorProcess", "OperatorStartError"]
