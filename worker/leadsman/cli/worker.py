"""`leadsman worker`: run the handlers of an application."""

import os
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from leadsman.cli.options import BrokerUrl, Namespace, TokenFile
from leadsman.errors import ConfigurationError, LeadsmanError


class _LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


class _Loop(StrEnum):
    AUTO = "auto"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


def worker(
    target: Annotated[
        str, typer.Argument(help="As handlers:app for `app = App()` in handlers.py.", metavar="MODULE:APP")
    ],
    *,
    slots: Annotated[int | None, typer.Option("--slots", help="Tasks at once. [env LEADSMAN_SLOTS; 1]")] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option(
            "--capability",
            help="Serve only this; repeatable. [env LEADSMAN_CAPABILITIES, comma separated; all with a handler]",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            help="Of the slots, so many for one capability; repeatable. [env LEADSMAN_LIMITS, comma separated]",
            show_default=False,
            metavar="CAPABILITY=SLOTS",
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="[env LEADSMAN_POOL]")] = None,
    drain_seconds: Annotated[
        float | None,
        typer.Option("--drain-seconds", help="From SIGTERM to the end. [env LEADSMAN_DRAIN_SECONDS; 3600]"),
    ] = None,
    lost_grace_seconds: Annotated[
        float | None,
        typer.Option(
            "--lost-grace-seconds",
            help="For a handler whose lease is lost, before the worker ends. [env LEADSMAN_LOST_GRACE_SECONDS; 60]",
        ),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            "--health-port", help="/readyz and /livez; 0 takes a free one. [env LEADSMAN_HEALTH_PORT; off]"
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="For development: start again when a Python file below here changes.")
    ] = False,
    log_format: Annotated[_LogFormat, typer.Option("--log-format", envvar="LEADSMAN_LOG_FORMAT")] = _LogFormat.JSON,
    log_level: Annotated[str, typer.Option("--log-level", envvar="LEADSMAN_LOG_LEVEL")] = "INFO",
    loop: Annotated[
        _Loop, typer.Option("--loop", envvar="LEADSMAN_LOOP", help="auto: uvloop when it is installed.")
    ] = _Loop.AUTO,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Run a worker until SIGTERM or Ctrl-C; then it finishes what it has, and a second time it hurries."""
    # Here, not above: the other commands have no need of it, and it is what a worker's memory is made of.
    from leadsman.logs import configure  # noqa: PLC0415
    from leadsman.worker.loading import load_app  # noqa: PLC0415
    from leadsman.worker.runtime import run_worker  # noqa: PLC0415
    from leadsman.worker.settings import Overrides, worker_settings  # noqa: PLC0415

    configure(log_format.value, _level(log_level))
    if reload:
        from leadsman.worker.reloading import run_reloading  # noqa: PLC0415  a deployed worker has no use for it

        return run_reloading([each for each in sys.argv[1:] if each != "--reload"], Path.cwd())
    try:
        app = load_app(target)
    except LeadsmanError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise ConfigurationError(f"{target} cannot be imported: {type(error).__name__}: {error}") from error
    overrides = Overrides(
        broker_url=broker_url,
        namespace=namespace,
        token_file=token_file,
        capabilities=tuple(capability or ()),
        slots=slots,
        limits=tuple(limit or ()),
        pool=pool,
        drain_seconds=drain_seconds,
        lost_grace_seconds=lost_grace_seconds,
        health_port=health_port,
    )
    settings = worker_settings(app, overrides, os.environ)
    code = run_worker(app, settings, loop.value)
    sys.stderr.flush()
    return code


def _level(name: str) -> str:
    level = name.upper()
    if level not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise typer.BadParameter(f"{name!r} is no log level; say DEBUG, INFO, WARNING or ERROR")
    return level
