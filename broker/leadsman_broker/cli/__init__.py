"""The `leadsman-broker` program."""

import typer

from leadsman_broker.cli.backup import backup, restore
from leadsman_broker.cli.serve import serve

app = typer.Typer(
    name="leadsman-broker",
    help="The broker: a queue per capability, leases with heartbeats, durable outcomes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve)
app.command("backup")(backup)
app.command("restore")(restore)


def main() -> None:
    """Run the program."""
    app()
