"""The commands put together, and how every way to fail becomes one line and an exit code."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated

import typer

from leadsman import __version__
from leadsman.cli.exits import Exit, exit_code
from leadsman.cli.pipes import ReaderGoneError
from leadsman.errors import ConfigurationError, LeadsmanError

COMMANDS = {
    "init": "leadsman.cli.init",
    "submit": "leadsman.cli.submit",
    "worker": "leadsman.cli.worker",
    "queues": "leadsman.cli.queues",
    "top": "leadsman.cli.top",
    "cost": "leadsman.cli.cost",
    "budget": "leadsman.cli.budget",
    "pause": "leadsman.cli.pausing",
    "resume": "leadsman.cli.pausing",
    "broker": "leadsman.cli.broker",
    "dlq": "leadsman.cli.dlq",
    "runs": "leadsman.cli.runs",
    "explain": "leadsman.cli.explain",
    "tasks": "leadsman.cli.tasks",
}
"""Each command, or group of commands, and the module that has it under this name.

Loaded when asked for: a worker is to be made of nothing but a worker, and a command should start at once.
"""

_PASSED_ON = {"broker"}
"""Commands whose arguments are another program's."""

_PLUGGED = "leadsman.commands"
"""Entry points of the commands that come from other packages of the distribution, and need its extras."""


# typer brings its own click in newer versions and uses the installed one in older ones; this is the one it uses.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Submit tasks to a Leadsman broker, look at its queues, run workers."""


def _message(error: Exception) -> str:
    text: str = error.format_message() if isinstance(error, typer.BadParameter) else str(error)
    return " ".join(text.split()).rstrip(".")


def _print_error(message: str, code: str, *, json_output: bool) -> None:
    from leadsman.cli.output import print_error  # noqa: PLC0415  what shows tables is not for a worker to carry

    print_error(message, code, json_output=json_output)


def assemble(asked: str | None = None) -> typer.Typer:
    """Return the program with the command that is asked for, or with all when there is no such command.

    Raises ConfigurationError when it comes from another package that lacks its extra.
    """
    program = typer.Typer(
        help="Submit tasks to a Leadsman broker, look at its queues, run workers.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    program.callback()(_options)
    plugged = {entry.name: entry for entry in entry_points(group=_PLUGGED)} if asked not in COMMANDS else {}
    if asked in COMMANDS:
        _add(program, asked)
    elif asked in plugged:
        _plug_in(program, plugged[asked])
    else:
        for name in COMMANDS:
            _add(program, name)
        for entry in plugged.values():
            with contextlib.suppress(ConfigurationError):  # a list shows what can be run here
                _plug_in(program, entry)
    return program


def _add(program: typer.Typer, name: str) -> None:
    found = getattr(import_module(COMMANDS[name]), name)
    if isinstance(found, typer.Typer):
        program.add_typer(found, name=name)
    elif name in _PASSED_ON:
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        program.command(name, context_settings=settings, add_help_option=False)(found)
    else:
        program.command(name)(found)


def _plug_in(program: typer.Typer, entry: EntryPoint) -> None:
    """Add another package's command. Raises ConfigurationError when that lacks its extra."""
    try:
        command = entry.load()
    except ImportError as error:
        raise ConfigurationError(
            f"`leadsman {entry.name}` needs an extra: pip install 'leadsman[local]' ({error})"
        ) from error
    program.command(entry.name)(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    name = Path(sys.argv[0]).name
    shown = "kubectl leadsman" if name.startswith("kubectl-") else "leadsman"
    json_output = "--json" in arguments
    try:
        asked = next((argument for argument in arguments if not argument.startswith("-")), None)
        code = assemble(asked)(list(arguments), prog_name=shown, standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        where = shown if context is None else context.command_path
        _print_error(f"{_message(error)}; see `{where} --help`", "usage", json_output=json_output)
        return Exit.USAGE
    except LeadsmanError as error:
        _print_error(str(error), error.code, json_output=json_output)
        return exit_code(error)
    except (KeyboardInterrupt, typer.Abort, asyncio.CancelledError):
        return Exit.INTERRUPTED
    except (ReaderGoneError, BrokenPipeError):
        # The reader has what it wanted. Python's own flush at exit must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    return int(code or Exit.OK)
