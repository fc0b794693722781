"""The commands put together, and how every way to fail becomes one line and an exit code."""

import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from leadsman import __version__
from leadsman.cli.broker import broker
from leadsman.cli.budget import budget
from leadsman.cli.cost import cost
from leadsman.cli.dlq import dlq
from leadsman.cli.exits import Exit, exit_code
from leadsman.cli.explain import explain
from leadsman.cli.output import print_error
from leadsman.cli.pausing import pause, resume
from leadsman.cli.pipes import ReaderGoneError
from leadsman.cli.queues import queues
from leadsman.cli.runs import runs
from leadsman.cli.submit import submit
from leadsman.cli.tasks import tasks
from leadsman.cli.top import top
from leadsman.cli.worker import worker
from leadsman.errors import ConfigurationError, LeadsmanError

program = typer.Typer(
    help="Submit tasks to a Leadsman broker, look at its queues, run workers.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
program.command()(submit)
program.command()(worker)
program.command()(queues)
program.command()(top)
program.command()(cost)
program.command()(budget)
program.command()(pause)
program.command()(resume)
program.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)(
    broker
)
program.add_typer(dlq, name="dlq")
program.add_typer(runs, name="runs")
program.add_typer(explain, name="explain")
program.add_typer(tasks, name="tasks")

_PLUGGED = "leadsman.commands"
"""Entry points of the commands that come from other packages of the distribution, and need its extras."""


# typer brings its own click in newer versions and uses the installed one in older ones; this is the one it uses.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@program.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Submit tasks to a Leadsman broker, look at its queues, run workers."""


def _message(error: Exception) -> str:
    text: str = error.format_message() if isinstance(error, typer.BadParameter) else str(error)
    return " ".join(text.split()).rstrip(".")


def _plug_in(arguments: Sequence[str]) -> None:
    """Add the other packages' command that is asked for; all of them when the whole list is shown."""
    own = {info.name for info in program.registered_groups}
    own |= {info.name or getattr(info.callback, "__name__", "") for info in program.registered_commands}
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    if asked in own:
        return
    for entry in entry_points(group=_PLUGGED):
        if asked not in {None, entry.name} or entry.name in own:
            continue
        try:
            command = entry.load()
        except ImportError as error:
            if asked is None:
                continue
            raise ConfigurationError(
                f"`leadsman {asked}` needs an extra: pip install 'leadsman[local]' ({error})"
            ) from error
        program.command(entry.name)(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    name = Path(sys.argv[0]).name
    shown = "kubectl leadsman" if name.startswith("kubectl-") else "leadsman"
    json_output = "--json" in arguments
    try:
        _plug_in(arguments)
        code = program(list(arguments), prog_name=shown, standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        where = shown if context is None else context.command_path
        print_error(f"{_message(error)}; see `{where} --help`", "usage", json_output=json_output)
        return Exit.USAGE
    except LeadsmanError as error:
        print_error(str(error), error.code, json_output=json_output)
        return exit_code(error)
    except (KeyboardInterrupt, typer.Abort, asyncio.CancelledError):
        return Exit.INTERRUPTED
    except (ReaderGoneError, BrokenPipeError):
        # The reader has what it wanted. Python's own flush at exit must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    return int(code or Exit.OK)
