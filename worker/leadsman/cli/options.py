"""Options that several commands share."""

from typing import Annotated

import typer

from leadsman.client import Client

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


def connect(broker_url: str | None, namespace: str | None, token_file: str | None) -> Client:
    """Return the client of one command. Raises ConfigurationError."""
    return Client(broker_url, namespace=namespace, token_file=token_file, unreachable_seconds=UNREACHABLE_SECONDS)
