"""`leadsman-broker serve`: the flags, and one line on standard error when it cannot start."""

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from leadsman_broker import logs
from leadsman_broker.auth.principal import NotInClusterError
from leadsman_broker.auth.static import TokensFileError
from leadsman_broker.cli.process import Process
from leadsman_broker.cli.settings import AuthMode, Settings, SettingsError
from leadsman_broker.http.api import MAX_BODY_BYTES
from leadsman_broker.http.server import BindError
from leadsman_broker.store.errors import StoreError
from leadsman_broker.store.sqlite.space import RESERVE_BYTES

_CANNOT_START = (SettingsError, TokensFileError, NotInClusterError, BindError, StoreError)


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _env(name: str) -> str:
    # Not LEADSMAN_BROKER_PORT: Kubernetes sets that in every pod beside a Service named leadsman-broker.
    return f"LEADSMAN_SERVE_{name}"


def serve(
    *,
    host: Annotated[str, typer.Option(envvar=_env("HOST"), help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar=_env("PORT"), min=0, max=65535, help="Port of the API; 0 takes a free one.")
    ] = 8080,
    ops_port: Annotated[
        int,
        typer.Option(
            envvar=_env("OPS_PORT"),
            min=0,
            max=65535,
            help="Port of /metrics, /livez and /readyz; 0 takes a free one.",
        ),
    ] = 9090,
    data: Annotated[
        Path | None,
        typer.Option(envvar=_env("DATA"), help="Folder of the durable state; made if it is not there."),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", envvar=_env("MEMORY"), help="Keep everything in memory; lost at the end.")
    ] = False,
    auth: Annotated[AuthMode, typer.Option(envvar=_env("AUTH"), help="How callers are known.")] = AuthMode.NONE,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", envvar=_env("INSECURE"), help="Allow --auth none on an address that others reach."
        ),
    ] = False,
    tokens_file: Annotated[
        Path | None,
        typer.Option(envvar=_env("TOKENS_FILE"), help="For --auth static: YAML or JSON, see docs/broker.md."),
    ] = None,
    audience: Annotated[
        str, typer.Option(envvar=_env("AUDIENCE"), help="For --auth kubernetes: the audience tokens must be for.")
    ] = "leadsman",
    operator_identity: Annotated[
        list[str] | None,
        typer.Option(
            envvar=_env("OPERATOR_IDENTITY"),
            help="User name with the role operator (system:serviceaccount:NAMESPACE:NAME). Repeatable.",
        ),
    ] = None,
    admin_identity: Annotated[
        list[str] | None,
        typer.Option(envvar=_env("ADMIN_IDENTITY"), help="User name with the role admin. Repeatable."),
    ] = None,
    kube_api_url: Annotated[
        str | None, typer.Option(envvar=_env("KUBE_API_URL"), help="The API server, when this is not a pod.")
    ] = None,
    kube_token_file: Annotated[
        Path | None,
        typer.Option(envvar=_env("KUBE_TOKEN_FILE"), help="The broker's own token, when this is not a pod."),
    ] = None,
    kube_ca_file: Annotated[
        Path | None, typer.Option(envvar=_env("KUBE_CA_FILE"), help="The API server's CA, when this is not a pod.")
    ] = None,
    capabilities_file: Annotated[
        Path | None,
        typer.Option(
            envvar=_env("CAPABILITIES_FILE"),
            help="Capabilities by namespace (YAML or JSON), for use without an operator.",
        ),
    ] = None,
    min_free_bytes: Annotated[
        int,
        typer.Option(
            envvar=_env("MIN_FREE_BYTES"),
            min=65_536,
            help="Room kept for finishing accepted work: with less on the disk, new work is refused (507).",
        ),
    ] = RESERVE_BYTES,
    max_body_bytes: Annotated[
        int, typer.Option(envvar=_env("MAX_BODY_BYTES"), min=65_536, max=268_435_456, help="Largest request body.")
    ] = MAX_BODY_BYTES,
    log_level: Annotated[
        LogLevel, typer.Option(envvar=_env("LOG_LEVEL"), help="How much is logged.")
    ] = LogLevel.INFO,
) -> None:
    """Run the broker until SIGTERM.

    Prints {"listening": {"host": ..., "port": ..., "ops_port": ...}} on standard output once it is ready.
    """
    if memory == (data is not None):
        _refuse("give either --data FOLDER or --memory")
    settings = Settings(
        host=host,
        port=port,
        ops_port=ops_port,
        data=data,
        auth=auth,
        insecure=insecure,
        audience=audience,
        tokens_file=tokens_file,
        operator_identities=tuple(operator_identity or ()),
        admin_identities=tuple(admin_identity or ()),
        kube_api_url=kube_api_url,
        kube_token_file=kube_token_file,
        kube_ca_file=kube_ca_file,
        capabilities_file=capabilities_file,
        min_free_bytes=min_free_bytes,
        max_body_bytes=max_body_bytes,
        log_level=log_level.value,
    )
    logs.configure(settings.log_level)
    try:
        settings.check()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(Process(settings).run())
    except _CANNOT_START as error:
        _refuse(str(error))


def _refuse(why: str) -> None:
    print(f"leadsman-broker: {why}", file=sys.stderr)
    raise typer.Exit(1)
