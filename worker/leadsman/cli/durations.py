"""Durations as people write them: 90s, 30m, 24h, 7d."""

import re

import typer

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration(text: str) -> float:
    """Return seconds. Raises BadParameter."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration; write 90s, 30m, 24h or 7d")
    return float(int(found[1]) * _UNITS[found[2]])
