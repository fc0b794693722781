"""A real node without Docker: containerd, kubelet, kube-proxy and CoreDNS in namespaces of their own.

The node is a process namespace, a mount namespace and a network namespace, all held by one process.
The kernel ends every process, mount and network device in them when that process ends, so a node
cannot leave a container, a mount or a route behind, however it dies.
"""

import subprocess
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from . import cgroups, debian, node_config, toolchain
from .control_plane import ControlPlane
from .docker_archive import pause_archive
from .errors import ClusterError
from .places import on_overlay
from .processes import Component, Identity, children
from .runs import Run
from .waiting import wait_for

_READY_SECONDS = 120.0
# What a kubelet insists on, shown to it in place of the host's own settings, which it would change.
_KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}


class Node:
    """The node of one run, made in two steps: its namespaces first, for the API server binds to their link."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.name = f"node-{run.id}"
        self._files = node_config.NodeFiles(run.folder / "node")
        self._init = 0
        self.holder: Component | None = None

    def attach(self) -> None:
        """Find the namespaces of a node that another process started."""
        for identity in self.run.manifest.processes:
            if identity.name == "node-init" and identity.alive():
                self._init = identity.pid
                return
        raise ClusterError(f"the node of {self.run.manifest.name!r} is gone")

    def make_namespaces(self) -> None:
        """Make the namespaces, their private folders and the link to the host, with its routes."""
        run = self.run
        run.manifest.link = f"lm{run.id}"
        run.manifest.cgroup = f"leadsman-{run.id}"
        run.save()
        cgroups.make(run.manifest.cgroup)
        self._files.folder.mkdir()
        holder = Component(
            name="node",
            command=[
                debian.program("unshare"),
                *("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *("--propagation", "private"),
                str(toolchain.path("pause")),
            ],
            log=run.log("node"),
            run_id=run.id,
            detached=run.manifest.detached,
        )
        self.holder = holder
        run.record(holder.start())
        self._init = wait_for(
            "the node's first process", lambda: self._first_process(holder), seconds=10, evidence=holder.tail
        )
        run.record(Identity.of("node-init", self._init))
        self._private_folders()
        self._link()

    def start(self, control_plane: ControlPlane) -> None:
        """Start the node's programs and return once it is ready and answers DNS."""
        self._write_files(control_plane)
        self._launch(
            control_plane, "containerd", [debian.program("containerd"), "--config", str(self._files.containerd)]
        )
        self._wait_for_containerd(control_plane.components["containerd"])
        self.load_image(pause_archive(toolchain.path("pause"), self.run.folder / "node" / "pause.tar"))
        folder = self.run.folder
        self._launch(
            control_plane,
            "kubelet",
            [
                str(toolchain.path("kubelet")),
                f"--config={self._files.kubelet}",
                f"--kubeconfig={folder / 'kubelet.kubeconfig'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.run.plan.node}",
            ],
        )
        self._launch(
            control_plane,
            "kube-proxy",
            [
                str(toolchain.path("kube-proxy")),
                f"--kubeconfig={folder / 'kube-proxy.kubeconfig'}",
                f"--hostname-override={self.name}",
                "--proxy-mode=iptables",
                f"--cluster-cidr={self.run.plan.pods}",
                # These are the host's own limits, which are not the node's to set.
                "--conntrack-max-per-core=0",
                "--conntrack-tcp-timeout-established=0",
                "--conntrack-tcp-timeout-close-wait=0",
                "--healthz-bind-address=127.0.0.1:10256",
                "--metrics-bind-address=127.0.0.1:10249",
            ],
        )
        control_plane.apply(*_dns_objects(self.run))
        self._launch(control_plane, "coredns", [str(toolchain.path("coredns")), "-conf", str(self._files.corefile)])
        self._wait_until_ready(control_plane)

    def reap(self) -> None:
        """Collect the exit status of the namespaces' holder after the run was cleared."""
        if self.holder is not None:
            self.holder.reap()

    def load_image(self, archive: Path) -> None:
        """Import a docker-archive; raises ClusterError with ctr's words when it is refused."""
        self.execute("ctr", "--namespace", "k8s.io", "images", "import", str(archive))

    def images(self) -> list[str]:
        """Return the names of the images that pods can use."""
        return self.execute("ctr", "--namespace", "k8s.io", "images", "list", "-q").split()

    def execute(self, *command: str) -> str:
        """Run a command inside the node and return its output; raises ClusterError when it fails."""
        done = subprocess.run(
            [*self._enter(), debian.program(command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ClusterError(f"{' '.join(command)} on the node: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _first_process(self, holder: Component) -> int | None:
        if holder.exited() is not None:
            raise ClusterError(f"no namespaces for the node\n{holder.tail()}")
        # setpriv becomes unshare, whose one child is process 1 of the node.
        found = children(holder.pid)
        if not found:
            return None
        # Until its exec the child is still unshare, before the mounts are set.
        return found[0] if Path(f"/proc/{found[0]}/comm").read_text().strip() == "pause" else None

    def _enter(self) -> list[str]:
        return [debian.program("nsenter"), f"--target={self._init}", "--mount", "--net", "--pid", "--"]

    def _private_folders(self) -> None:
        folder = self._files.folder
        # Fixed paths of kubelet and containerd; each node sees its own, the host's stay as they are.
        bound = {"/var/lib/kubelet": folder / "kubelet", "/var/lib/cni": folder / "cni-state"}
        lines = ["set -eu", "mount --make-rshared /", "mount -t tmpfs -o mode=755 tmpfs /run"]
        for point, private in bound.items():
            private.mkdir()
            Path(point).mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind '{private}' {point}")
        Path("/var/log/containers").mkdir(parents=True, exist_ok=True)
        kernel = folder / "kernel"
        kernel.mkdir()
        for setting, value in _KERNEL.items():
            mask = kernel / setting.replace("/", "-")
            mask.write_text(f"{value}\n")
            lines.append(f"[ ! -e /proc/sys/{setting} ] || mount --bind '{mask}' /proc/sys/{setting}")
        lines += [
            "mount -t tmpfs -o mode=755 tmpfs /var/log/containers",
            "mkdir -p /run/netns /run/containerd",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            # Pods send from addresses that the link itself does not carry.
            "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done",
        ]
        self.execute("sh", "-c", "\n".join(lines))

    def _link(self) -> None:
        plan, link = self.run.plan, self.run.manifest.link
        self._host_ip("link", "add", link, "type", "veth", "peer", "name", "uplink", "netns", str(self._init))
        self._host_ip("address", "add", f"{plan.host}/30", "dev", link)
        self._host_ip("link", "set", link, "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{plan.node}/30", "dev", "uplink"),
            ("link", "set", "uplink", "up"),
            ("route", "add", "default", "via", str(plan.host)),
        ):
            self.execute("ip", *words)
        for network in (plan.pods, plan.services):
            self._host_ip("route", "add", str(network), "via", str(plan.node), "dev", link)

    def _host_ip(self, *words: str) -> None:
        done = subprocess.run([debian.program("ip"), *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def _write_files(self, control_plane: ControlPlane) -> None:
        files, plan, authority = self._files, self.run.plan, control_plane.authority
        for folder in (files.cni, files.pod_logs):
            folder.mkdir()
        serving = authority.issue("kubelet-serving", self.name, addresses=[plan.node], dns=[self.name])
        for program, user, groups in (
            ("kubelet", f"system:node:{self.name}", ["system:nodes"]),
            ("kube-proxy", "system:kube-proxy", []),
            ("coredns", "system:coredns", []),
        ):
            pair = authority.issue(program, user, groups=groups)
            control_plane.write_kubeconfig(f"{program}.kubeconfig", pair)
        files.resolv.write_text("")
        snapshotter = "native" if on_overlay(files.folder) else "overlayfs"
        files.containerd.write_text(node_config.containerd(files, snapshotter=snapshotter))
        (files.cni / "10-pods.conflist").write_text(node_config.cni(plan))
        files.kubelet.write_text(
            node_config.kubelet(
                files,
                plan,
                cgroup=self.run.manifest.cgroup,
                authority=authority.certificate,
                certificate=serving.certificate,
                key=serving.key,
            )
        )
        files.corefile.write_text(node_config.corefile(plan, self.run.folder / "coredns.kubeconfig"))

    def _launch(self, control_plane: ControlPlane, name: str, command: list[str]) -> None:
        control_plane.launch(
            Component(
                name=name,
                command=[*self._enter(), *command],
                log=self.run.log(name),
                run_id=self.run.id,
                detached=self.run.manifest.detached,
            )
        )

    def _wait_for_containerd(self, containerd: Component) -> None:
        def answers() -> bool:
            if containerd.exited() is not None:
                raise ClusterError(f"containerd ended\n{containerd.tail()}")
            try:
                self.execute("ctr", "--connect-timeout", "1s", "version")
            except ClusterError:
                return False
            return True

        wait_for("containerd", answers, seconds=30, evidence=containerd.tail)

    def _wait_until_ready(self, control_plane: ControlPlane) -> None:
        kubelet, coredns = control_plane.components["kubelet"], control_plane.components["coredns"]

        def registered() -> bool:
            if kubelet.exited() is not None:
                raise ClusterError(f"kubelet ended\n{kubelet.tail()}")
            nodes: list[dict[str, Any]] = control_plane.get("nodes")["items"]
            return any(_is_ready(node) for node in nodes)

        wait_for(
            "the node to be ready", registered, seconds=_READY_SECONDS, every_seconds=0.3, evidence=kubelet.tail
        )
        wait_for("DNS", self._dns_ready, seconds=30, evidence=coredns.tail)

    def _dns_ready(self) -> bool:
        try:
            with urlopen(f"http://{self.run.plan.node}:8181/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    # The first taints are lifted by the controller manager a moment after the condition.
    return ready and not node["spec"].get("taints")


def _dns_objects(run: Run) -> list[dict[str, Any]]:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    metadata = {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}
    label = {"kubernetes.io/service-name": "kube-dns"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": str(run.plan.dns_service), "ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "kube-dns-node", "namespace": "kube-system", "labels": label},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [str(run.plan.node)], "conditions": {"ready": True}}],
            "ports": ports,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["endpoints", "services", "pods", "namespaces"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["list", "watch"],
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:coredns",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
        },
    ]
