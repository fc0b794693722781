"""A real control plane on loopback: etcd, API server, controller manager and scheduler. Needs no root."""

import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import helm, toolchain
from .certificates import Authority, Pair
from .errors import ClusterError
from .processes import Component
from .runs import Run, find
from .waiting import wait_for

PORTS = ("etcd", "etcd-peer", "apiserver")
ISSUER = "https://kubernetes.default.svc"
_READY_SECONDS = 120.0
_LOOPBACK = IPv4Address("127.0.0.1")


class ControlPlane:
    """A running control plane; a context manager that takes it down at the end.

    ``kubeconfig`` is an administrator's; ``components`` are the programs by name, which a test may
    stop, pause, kill and start again.
    """

    def __init__(self, run: Run, address: IPv4Address = _LOOPBACK) -> None:
        self.run = run
        self.address = address
        self.kubeconfig = run.folder / "kubeconfig"
        self.components: dict[str, Component] = {}

    @classmethod
    def start(cls, *, name: str | None = None, detached: bool = False) -> Self:
        """Build what is missing, start everything and return once it answers.

        ``detached`` leaves it running when this process ends (``python -m cluster up``); otherwise
        it dies with this process. Raises ClusterError with the end of the log that tells why.
        """
        toolchain.build(toolchain.CONTROL_PLANE)
        run = Run.create(kind="control-plane", name=name, detached=detached, ports=PORTS)
        self = cls(run)
        try:
            self.bring_up()
            run.hand_over()
        except BaseException:
            self.stop()
            raise
        return self

    @classmethod
    def attach(cls, name: str) -> Self:
        """Return the cluster of this name that ``python -m cluster up`` started; it must not be stopped here.

        Raises ClusterError when none is up.
        """
        run = find(name)
        if run is None:
            raise ClusterError(
                f"no cluster named {name!r} is up; start it with: python -m cluster up --name {name}"
            )
        return cls(run)

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{self.address}:{self.run.manifest.ports['apiserver']}"

    def bring_up(self) -> None:
        """Start the programs in order and wait until the API server and the controllers work."""
        self.authority = Authority(self.run.folder / "certificates")
        self._write_credentials()
        self._launch("etcd", self._etcd())
        self._launch("kube-apiserver", self._api_server())
        self.wait_ready()
        self._launch("kube-controller-manager", self._controller_manager())
        self._launch("kube-scheduler", self._scheduler())
        self.run.manifest.kubeconfig = str(self.kubeconfig)
        self.run.save()
        # Pods of a namespace are refused until the controller manager has made its account.
        self._wait(
            "the default service account",
            "kube-controller-manager",
            lambda: self._answers("get", "--raw", "/api/v1/namespaces/default/serviceaccounts/default"),
        )

    def wait_ready(self) -> None:
        """Wait until the API server says that it is ready."""
        self._wait("the API server", "kube-apiserver", lambda: self._answers("get", "--raw", "/readyz"))

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 120) -> str:
        """Run kubectl as administrator and return its standard output.

        Raises ClusterError with the standard error when kubectl fails.
        """
        done = subprocess.run(
            [str(toolchain.path("kubectl")), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
            env=self.environment(),
        )
        if done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def helm(self, *arguments: str, timeout_seconds: float = 300) -> str:
        """Run helm against this cluster and return its standard output; raises ClusterError when it fails."""
        return helm.run(self.kubeconfig, self.run.folder / "helm", *arguments, timeout_seconds=timeout_seconds)

    def get(self, *arguments: str) -> Any:
        """Return what ``kubectl get ... -o json`` prints, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects by server-side apply."""
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=document)

    @contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """Make a namespace with a unique name and delete it afterwards, without waiting for its end."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def environment(self) -> dict[str, str]:
        """Return an environment in which kubectl is the built one and finds this cluster."""
        path = os.pathsep.join([str(toolchain.path("kubectl").parent), os.environ.get("PATH", os.defpath)])
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig)}

    def stop(self) -> None:
        """Take everything down; nothing of it is left on the machine."""
        self.run.clear()
        for component in self.components.values():
            component.reap()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def launch(self, component: Component) -> None:
        """Start one program and record it as the run's own."""
        self.components[component.name] = component
        self.run.record(component.start())

    def restart(self, name: str) -> None:
        """Start a stopped or killed program again with the same flags."""
        self.run.record(self.components[name].start())

    def _launch(self, name: str, command: list[str]) -> None:
        self.launch(
            Component(
                name=name,
                command=[str(toolchain.path(name)), *command],
                log=self.run.log(name),
                run_id=self.run.id,
                detached=self.run.manifest.detached,
            )
        )

    def _write_credentials(self) -> None:
        plan = self.run.plan
        issue = self.authority.issue
        service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        self._serving = issue(
            "apiserver",
            "kube-apiserver",
            dns=["localhost", *service, "kubernetes.default.svc.cluster.local"],
            addresses={_LOOPBACK, self.address, plan.kubernetes_service},
        )
        self._kubelet_client = issue("apiserver-kubelet", "kube-apiserver", groups=["system:masters"])
        self._token_key = self.authority.signing_key("service-accounts")
        self.write_kubeconfig("kubeconfig", issue("admin", "admin", groups=["system:masters"]))
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.write_kubeconfig(f"{name}.kubeconfig", issue(name, f"system:{name}"))

    def write_kubeconfig(self, file: str, pair: Pair) -> Path:
        """Write a kubeconfig for the holder of a certificate into the run's folder."""
        return self.authority.kubeconfig(self.run.folder / file, self.url, pair)

    def _etcd(self) -> list[str]:
        ports = self.run.manifest.ports
        client = f"http://127.0.0.1:{ports['etcd']}"
        peer = f"http://127.0.0.1:{ports['etcd-peer']}"
        return [
            f"--data-dir={self.run.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server(self) -> list[str]:
        ports = self.run.manifest.ports
        alone = self.address == _LOOPBACK
        # A loopback address is refused in the endpoints of the kubernetes service.
        reach = ["--endpoint-reconciler-type=none"] if alone else [f"--advertise-address={self.address}"]
        return [
            f"--etcd-servers=http://127.0.0.1:{ports['etcd']}",
            f"--bind-address={self.address}",
            f"--secure-port={ports['apiserver']}",
            *reach,
            f"--service-cluster-ip-range={self.run.plan.services}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--client-ca-file={self.authority.certificate}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--kubelet-certificate-authority={self.authority.certificate}",
            f"--kubelet-client-certificate={self._kubelet_client.certificate}",
            f"--kubelet-client-key={self._kubelet_client.key}",
            # Else logs and exec look the node's name up in DNS.
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-signing-key-file={self._token_key}",
            f"--service-account-key-file={self._token_key}",
            "--profiling=false",
        ]

    def _controller_manager(self) -> list[str]:
        kubeconfig = self.run.folder / "kube-controller-manager.kubeconfig"
        return [
            f"--kubeconfig={kubeconfig}",
            "--secure-port=0",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--root-ca-file={self.authority.certificate}",
            f"--service-account-private-key-file={self._token_key}",
            "--profiling=false",
        ]

    def _scheduler(self) -> list[str]:
        kubeconfig = self.run.folder / "kube-scheduler.kubeconfig"
        return [f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=false", "--profiling=false"]

    def _answers(self, *arguments: str) -> bool:
        try:
            self.kubectl(*arguments, "--request-timeout=3s", timeout_seconds=10)
        except (ClusterError, subprocess.TimeoutExpired):
            return False
        return True

    def _wait(self, what: str, component: str, check: Callable[[], bool]) -> None:
        def look() -> bool:
            code = self.components[component].exited()
            if code is not None:
                raise ClusterError(f"{component} ended with {code}\n{self.components[component].tail()}")
            return check()

        wait_for(what, look, seconds=_READY_SECONDS, evidence=self.components[component].tail)
