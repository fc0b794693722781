"""The SQL of the store, by name, and the same statement for many rows at once.

Every run of a statement lets go of the interpreter and must get it back, which a busy event loop gives up only
every few milliseconds: a commit of row by row would stand still beside it. So rows are written by the dozen: a
third less work, and the writer's thread and the loop run side by side.
"""

import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

_WIDTHS = (64, 32, 16, 8, 4, 2, 1)
"""Rows in one statement. Few widths, so that every form stays prepared: see `FORMS`."""

_ROW = re.compile(r"(?<=VALUES )(\(\?(?:, \?)*\))")


def _parse(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-- name: "):
            lines = found[line.removeprefix("-- name: ").strip()] = []
        elif not line.startswith("--"):
            lines.append(line)
    return {name: "\n".join(body).strip() for name, body in found.items()}


_FOLDER = resources.files(__package__)

SQL = {
    name: sql
    for file in ("statements.sql", "money.sql")
    for name, sql in _parse(_FOLDER.joinpath(file).read_text(encoding="utf-8")).items()
}


def _widened(sql: str) -> dict[int, str]:
    before, row, after = _ROW.split(sql)
    return {width: before + ", ".join([row] * width) + after for width in _WIDTHS}


_WIDE = {name: _widened(sql) for name, sql in SQL.items() if _ROW.search(sql)}


FORMS = 2 * len(SQL) + len(_WIDTHS) * len(_WIDE)
"""How many statements the writer must be able to keep prepared."""


def in_portions(name: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield statements, with their parameters, that do for all `rows` what the one with `VALUES (?, ...)` does."""
    start = 0
    for width in _WIDTHS:
        while len(rows) - start >= width:
            yield _WIDE[name][width], [value for row in rows[start : start + width] for value in row]
            start += width
