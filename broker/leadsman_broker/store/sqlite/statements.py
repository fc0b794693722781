"""The SQL of the store, by name."""

from importlib import resources


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

SQL = _parse(_FOLDER.joinpath("statements.sql").read_text(encoding="utf-8"))
