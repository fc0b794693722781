"""`leadsman init`: a project to start from."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from leadsman.app import CAPABILITY_PATTERN
from leadsman.cli.exits import Exit
from leadsman.cli.options import JsonOutput
from leadsman.cli.output import print_json, say
from leadsman.errors import ConfigurationError

_PLACEHOLDER = "my-agent"
"""The capability's name in the files of `leadsman.starter`."""
_MAX_NAME = 63
"""It also names a pool, which names pods."""


def init(
    folder: Annotated[Path, typer.Argument(help="Where; made when it is not there.", metavar="FOLDER")] = Path(),
    *,
    name: Annotated[
        str | None, typer.Option("--name", help="The capability and the pool; else the folder's name.")
    ] = None,
    json_output: JsonOutput = False,
) -> int:
    """Make a project to start from: handlers and their tests, a producer, a pool, a Dockerfile.

    Nothing that is there is written over.
    """
    chosen = name if name is not None else _from_folder(folder)
    if len(chosen) > _MAX_NAME or not re.fullmatch(CAPABILITY_PATTERN, chosen):
        raise ConfigurationError(
            f"{chosen!r} is no capability name: up to {_MAX_NAME} lower-case letters, digits, '-' and '.'; "
            "say --name"
        )
    made = {
        folder / each.name: each.read_text(encoding="utf-8").replace(_PLACEHOLDER, chosen)
        for each in sorted(files("leadsman.starter").iterdir(), key=lambda each: each.name)
        if each.is_file()
    }
    there = [path for path in made if path.exists()]
    if there:
        raise ConfigurationError(f"{there[0]} is there already; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    if json_output:
        print_json({"name": chosen, "files": [str(path) for path in made]})
    else:
        for path in made:
            print(path)
        say(f"read {folder / 'README.md'} next")
    return Exit.OK


def _from_folder(folder: Path) -> str:
    """Return a name out of the folder's, as far as it can be one."""
    return re.sub(r"[^a-z0-9.-]+", "-", folder.resolve().name.lower()).strip("-.")
