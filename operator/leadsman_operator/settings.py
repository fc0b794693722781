"""What the operator is started with."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """One field for each flag of `leadsman-operator run`."""

    broker_url: str
    """Where the operator reaches the broker."""
    worker_broker_url: str
    """Where workers reach it; goes into every worker pod."""
    identity: str
    """This process, in the election and in events."""
    broker_token_file: Path | None = None
    """None: the broker asks for no token."""
    audience: str = "leadsman"
    """Of the workers' tokens."""
    namespaces: tuple[str, ...] = ()
    """None: all."""
    ops_host: str = "0.0.0.0"  # noqa: S104 - probes and scrapes come from other machines
    ops_port: int = 9090
    """0: any free one, printed on standard output."""
    leader_election: bool = True
    lease_namespace: str = "default"
    lease_name: str = "leadsman-operator"
    conflict_quiet_seconds: float = 300.0
    """Another writer of a pool's replicas must be quiet for so long before they are taken back, once."""

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """Each namespace to list and watch; a single None for all of them at once."""
        return self.namespaces or (None,)
