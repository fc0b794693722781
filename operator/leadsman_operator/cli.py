"""`leadsman-operator`: the command line of the operator."""

import asyncio
import secrets
import socket
from pathlib import Path
from typing import Annotated

import structlog
import typer
from prometheus_client import disable_created_metrics

from leadsman_operator import logs
from leadsman_operator.application import serve
from leadsman_operator.kube.connection import NoCredentialsError
from leadsman_operator.settings import OperatorSettings

application = typer.Typer(
    name="leadsman-operator",
    help="Size worker pools from their queues.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_log = structlog.get_logger(__name__)

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@application.callback()
def _leadsman_operator() -> None:
    """Size worker pools from their queues."""


@application.command()
def run(  # noqa: PLR0917 - typer makes the flags from them
    broker_url: Annotated[
        str, typer.Option(envvar="LEADSMAN_BROKER_URL", help="Where the operator reaches the broker.")
    ],
    worker_broker_url: Annotated[
        str | None,
        typer.Option(envvar="LEADSMAN_WORKER_BROKER_URL", help="Where workers reach it. [default: the same]"),
    ] = None,
    broker_token_file: Annotated[
        Path | None,
        typer.Option(envvar="LEADSMAN_BROKER_TOKEN_FILE", help="The operator's token for the broker, read again."),
    ] = None,
    audience: Annotated[
        str, typer.Option(envvar="LEADSMAN_AUDIENCE", help="Audience of the workers' tokens.")
    ] = "leadsman",
    namespace: Annotated[
        list[str] | None,
        typer.Option(envvar="LEADSMAN_NAMESPACES", help="A namespace to serve; repeatable. [default: all]"),
    ] = None,
    ops_host: Annotated[
        str, typer.Option(envvar="LEADSMAN_OPS_HOST", help="Address of /metrics, /livez and /readyz.")
    ] = "0.0.0.0",  # noqa: S104 - probes and scrapes come from other machines
    ops_port: Annotated[
        int,
        typer.Option(envvar="LEADSMAN_OPS_PORT", min=0, max=65535, help="Their port; 0: a free one, printed."),
    ] = 9090,
    leader_election: Annotated[
        bool, typer.Option(envvar="LEADSMAN_LEADER_ELECTION", help="Act only while holding the Lease.")
    ] = True,
    lease_namespace: Annotated[
        str | None,
        typer.Option(envvar="LEADSMAN_LEASE_NAMESPACE", help="Namespace of the Lease. [default: the pod's own]"),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(envvar="LEADSMAN_IDENTITY", help="This process in the election. [default: host and a number]"),
    ] = None,
    conflict_quiet_seconds: Annotated[
        float,
        typer.Option(
            envvar="LEADSMAN_CONFLICT_QUIET_SECONDS",
            min=0,
            help="How long another writer of replicas must be quiet before they are taken back, once.",
        ),
    ] = 300.0,
    log_level: Annotated[
        str, typer.Option(envvar="LEADSMAN_LOG_LEVEL", help=f"One of {', '.join(logs.LEVELS)}.")
    ] = "info",
) -> None:
    """Run the operator until SIGTERM."""
    if log_level not in logs.LEVELS:
        raise typer.BadParameter(f"choose one of {', '.join(logs.LEVELS)}", param_hint="--log-level")
    settings = OperatorSettings(
        broker_url=broker_url,
        worker_broker_url=worker_broker_url or broker_url,
        identity=identity or f"{socket.gethostname()}_{secrets.token_hex(4)}",
        broker_token_file=broker_token_file,
        audience=audience,
        namespaces=tuple(namespace or ()),
        ops_host=ops_host,
        ops_port=ops_port,
        leader_election=leader_election,
        lease_namespace=lease_namespace or _own_namespace(),
        conflict_quiet_seconds=conflict_quiet_seconds,
    )
    logs.configure(log_level)
    # When each series began is a third of the text, and nobody asks for it.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    try:
        asyncio.run(serve(settings))
    except (NoCredentialsError, OSError) as error:
        typer.echo(f"leadsman-operator: {error}", err=True)
        raise typer.Exit(1) from error
    except Exception as error:
        _log.exception("the operator ends")
        raise typer.Exit(1) from error


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:
        return "default"


def main() -> None:
    """Entry point of the console script."""
    application()


if __name__ == "__main__":
    main()
