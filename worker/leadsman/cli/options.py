"""Options that several commands share."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from leadsman.client import Client

Answer = TypeVar("Answer")

UNREACHABLE_SECONDS = 5.0
"""A person waits; a program that wants more patience uses the client."""

_CONNECTION = "Connection"

BrokerUrl = Annotated[
    str | None,
    typer.Option(
        "--broker-url", help="The broker's address. [env LEADSMAN_BROKER_URL]", rich_help_panel=_CONNECTION
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="[env LEADSMAN_NAMESPACE; default]", rich_help_panel=_CONNECTION),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        help="File with the bearer token; read again when it changes. [env LEADSMAN_TOKEN_FILE]",
        rich_help_panel=_CONNECTION,
    ),
]
JsonOutput = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def connect(broker_url: str | None, namespace: str | None, token_file: str | None) -> "Client":
    """Return the client of one command; as `kubectl leadsman`, of the broker in kubectl's context unless told.

    Raises ConfigurationError and KubectlError.
    """
    from leadsman.client import Client  # noqa: PLC0415  a worker takes these options and no client

    token = None
    if not (broker_url or os.environ.get("LEADSMAN_BROKER_URL")) and Path(sys.argv[0]).name.startswith("kubectl-"):
        from leadsman.cli.port_forward import find_broker  # noqa: PLC0415  only then

        found = find_broker(namespace or os.environ.get("LEADSMAN_NAMESPACE"))
        broker_url, namespace = found.url, found.namespace
        told = token_file or os.environ.get("LEADSMAN_TOKEN_FILE") or os.environ.get("LEADSMAN_TOKEN")
        token = None if told else found.token
    return Client(
        broker_url,
        namespace=namespace,
        token=token,
        token_file=token_file,
        unreachable_seconds=UNREACHABLE_SECONDS,
    )


def ask(client: "Client", call: "Callable[[Client], Awaitable[Answer]]") -> Answer:
    """Make one call with the client, close it and return the answer."""

    async def asked() -> Answer:
        async with client:
            return await call(client)

    return asyncio.run(asked())
