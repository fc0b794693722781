"""The configuration files of the node's programs, as data; the node itself only writes them down."""

import json
from dataclasses import dataclass
from pathlib import Path

from .network import AddressPlan

DOMAIN = "cluster.local"
# Inside the node's own mount namespace; /run is a file system of its own there.
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "localhost/pause:1"


@dataclass(frozen=True)
class NodeFiles:
    """Where the node's files are."""

    folder: Path

    @property
    def containerd(self) -> Path:
        """Configuration of containerd."""
        return self.folder / "containerd.toml"

    @property
    def kubelet(self) -> Path:
        """Configuration of the kubelet."""
        return self.folder / "kubelet.json"

    @property
    def corefile(self) -> Path:
        """Configuration of CoreDNS."""
        return self.folder / "Corefile"

    @property
    def resolv(self) -> Path:
        """The name servers that pods with ``dnsPolicy: Default`` get: none, there is no network."""
        return self.folder / "resolv.conf"

    @property
    def cni(self) -> Path:
        """Folder of the pod network's configuration."""
        return self.folder / "cni"

    @property
    def pod_logs(self) -> Path:
        """Folder of the containers' logs."""
        return self.folder / "pod-logs"


def containerd(files: NodeFiles, *, snapshotter: str) -> str:
    """Return containerd's configuration."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{files.folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing"]
[grpc]
address = "{CONTAINERD_SOCKET}"
[{cri}]
sandbox_image = "{PAUSE_IMAGE}"
# Without it runc dies where a negative score is refused ("can't get final child's PID from pipe").
restrict_oom_score_adj = true
[{cri}.containerd]
snapshotter = "{snapshotter}"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
[{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{files.cni}"
"""


def cni(plan: AddressPlan) -> str:
    """Return the pod network: point to point, so that it needs no bridge filter in the kernel."""
    network = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(plan.pods)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    return json.dumps(network, indent=1)


def kubelet(
    files: NodeFiles, plan: AddressPlan, *, cgroup: str, authority: Path, certificate: Path, key: Path
) -> str:
    """Return the kubelet's configuration."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "clusterDomain": DOMAIN,
        "clusterDNS": [str(plan.dns_service)],
        "resolvConf": str(files.resolv),
        "podLogsDir": str(files.pod_logs),
        "volumePluginDir": str(files.folder / "volume-plugins"),
        "maxPods": 250,
        "serializeImagePulls": False,
        # Images come from no registry, so one that was collected could not come back.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
    }
    return json.dumps(config, indent=1)


def corefile(plan: AddressPlan, kubeconfig: Path) -> str:
    """Return CoreDNS' configuration: the cluster's names and nothing else."""
    return f""".:53 {{
    bind {plan.node}
    errors
    health {plan.node}:8080 {{
        lameduck 0s
    }}
    ready {plan.node}:8181
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
    cache 5
}}
"""
