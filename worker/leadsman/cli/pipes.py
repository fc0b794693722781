"""A reader that went away, as in `leadsman queues --watch | head -n 1`."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


def until_reader_gone(command: Callable[P, R]) -> Callable[P, R]:
    """Tell a broken pipe from an error before typer does: it would exit with 1, as for any failure."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError as error:
            raise ReaderGoneError from error

    return run
