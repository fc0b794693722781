"""The `leadsman-broker` program."""

import typer

from leadsman_broker.cli.serve import serve

app = typer.Typer(
    name="leadsman-broker",
    help="The broker: a queue per capability, leases with heartbeats, durable outcomes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve)


@app.callback()
def _root() -> None:
    """Keep `serve` a subcommand, also while it is the only one."""


def main() -> None:
    """Run the program."""
    app()
