"""`leadsman broker ...`: the broker's own program, where it is installed."""

import importlib

import typer

from leadsman.errors import LeadsmanError


class NotInstalledError(LeadsmanError):
    """A part of Leadsman that this command needs is not installed."""

    code = "not_installed"


def broker(context: typer.Context) -> None:
    """Run a broker (serve), copy its state while it runs (backup), put a copy back (restore)."""
    try:
        # By name, and only now: the SDK must do without the broker, which most who install it never run.
        program = importlib.import_module("leadsman_broker.cli").app
    except ImportError as error:
        raise NotInstalledError(
            f"the broker needs more than is installed here ({error.name}): pip install 'leadsman[broker]'"
        ) from error
    program(context.args, prog_name=context.command_path)
