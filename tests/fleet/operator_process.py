"""One `leadsman-operator run` process and what a test may do to it."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from server_process import ServerProcess, StartError


class OperatorStartError(StartError):
    """The operator ended, or said nothing, before it listened."""


class OperatorProcess(ServerProcess):
    """An operator of some namespaces of one cluster. Every start writes to the same log.

    Without leader election unless asked: a test that restarts it would otherwise wait for the old lease to run out.
    """

    noun = "operator"
    start_error = OperatorStartError

    def __init__(
        self,
        folder: Path,
        *,
        kubeconfig: Path,
        broker_url: str,
        namespaces: Sequence[str] = (),
        leader_election: bool = False,
        lease_namespace: str | None = None,
        program: str = "leadsman_operator.cli",
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self.kubeconfig = kubeconfig
        self.broker_url = broker_url
        self.namespaces = list(namespaces)
        self.leader_election = leader_election
        self.lease_namespace = lease_namespace
        self.program = program
        self.args = list(args)
        self.env = dict(env or {})
        self.ops_port: int | None = None

    @property
    def ops_url(self) -> str:
        """Where /metrics, /livez and /readyz are."""
        return f"http://127.0.0.1:{self.ops_port}"

    def command(self) -> list[str]:
        """The command line of the next start."""
        command = [sys.executable, "-m", self.program, "run"]
        command += ["--broker-url", self.broker_url, "--ops-port", "0"]
        command += ["--leader-election" if self.leader_election else "--no-leader-election"]
        if self.lease_namespace:
            command += ["--lease-namespace", self.lease_namespace]
        for namespace in self.namespaces:
            command += ["--namespace", namespace]
        return command + self.args

    def environment(self) -> Mapping[str, str]:
        """The cluster, this process's import path (`program` may be a test's own), and what a test set for it."""
        where = {"KUBECONFIG": str(self.kubeconfig), "PYTHONPATH": os.pathsep.join(sys.path)}
        return {**where, **self.env}

    def listens(self, where: Mapping[str, Any]) -> None:
        """Keep the port of this start."""
        self.ops_port = where["ops_port"]
