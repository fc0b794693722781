"""What the command line prints: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text


def as_json(value: Any) -> str:
    """Return one line of JSON."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(value, ensure_ascii=False)


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    print(as_json(value), flush=True)


def say(text: str) -> None:
    """Tell the person at the terminal something that is no result."""
    print(text, file=sys.stderr, flush=True)


def print_error(message: str, code: str, *, json_output: bool) -> None:
    """Print an error as one line, whatever is in it."""
    line = " ".join(message.split())
    say(as_json({"error": {"code": code, "message": line}}) if json_output else f"error: {line}")


def console() -> Console:
    """Return a console on standard output; a pipe gets plain text that is not cut at 80 columns."""
    return Console(width=None if sys.stdout.isatty() else 10_000, highlight=False, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """Return a table without lines, as kubectl prints them. Cells are text, never markup."""
    made = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def moment(at: float | None, precision: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """Return seconds since the epoch as a time in UTC; a dash for none."""
    if at is None:
        return "-"
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def age(seconds: float | None) -> str:
    """Return a duration as a person reads it: 12s, 3m20s, 5h10m, 2d3h."""
    if seconds is None:
        return "-"
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600}h"
