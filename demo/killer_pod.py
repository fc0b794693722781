"""On a cluster that is not ours: the kill comes from a short-lived privileged pod beside the victim."""

import json
from pathlib import Path

from demo.pods import Pod
from demo.programs import run

_KILL = """
import os, pathlib, signal, sys
found = [int(p.parent.name) for p in pathlib.Path("/proc").glob("[0-9]*/cgroup") if sys.argv[1] in p.read_text()]
for pid in found:
    os.kill(pid, signal.SIGKILL)
sys.exit(0 if found else "no process of that container on this node")
"""


def kill_from_a_pod(kubectl: Path, kubeconfig: Path, image: str, victim: Pod) -> None:
    """SIGKILL every process of the victim's container. Raises DemoError where the cluster refuses such pods."""
    name = f"kill-{victim.uid[:8]}"
    killer = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": victim.namespace},
        "spec": {
            "nodeName": victim.node,
            "hostPID": True,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "kill",
                    "image": image,
                    "command": ["python3", "-c", _KILL, victim.container_id],
                    "securityContext": {"privileged": True, "runAsUser": 0},
                }
            ],
        },
    }
    kube: list[str | Path] = [kubectl, "--kubeconfig", kubeconfig, "--namespace", victim.namespace]
    run([*kube, "create", "-f", "-"], stdin=json.dumps(killer))
    try:
        run([*kube, "wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"])
    finally:
        run([*kube, "delete", "pod", name, "--wait=false"])
