"""The schema as numbered steps, `NNNN_what.sql`: a new file takes all of them, an older one those it lacks.

A step that has been released never changes. To add a column or a table, add the next number; a column that is NOT
NULL needs a DEFAULT that is right for every row that is there. Two steps with one number do not load: the one that
comes second takes the next.
"""

import re
from importlib import resources
from typing import NamedTuple

import apsw

APPLICATION_ID = 0x4C454144
"""Marks the file as ours ("LEAD")."""


class Migration(NamedTuple):
    """One step; `version` is that of a file after it."""

    version: int
    name: str
    sql: str


def read_migrations() -> tuple[Migration, ...]:
    """Return the steps in order. Raises ValueError when their numbers are not 1, 2, 3 and so on."""
    found = []
    for file in resources.files(__package__).iterdir():
        named = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if named is not None:
            found.append(Migration(int(named[1]), named[2], file.read_text(encoding="utf-8")))
    found.sort()
    if [step.version for step in found] != [*range(1, len(found) + 1)]:
        names = ", ".join(f"{step.version:04}_{step.name}" for step in found)
        raise ValueError(f"migrations must be numbered without gap or repetition: {names}")
    return tuple(found)


def migrate(db: apsw.Connection, steps: tuple[Migration, ...]) -> int:
    """Apply the steps a file lacks in the caller's transaction; return the version it had, 0 for a new file."""
    had = int(db.pragma("user_version"))
    if had == 0:
        db.pragma("application_id", APPLICATION_ID)
    for step in steps[had:]:
        db.execute(step.sql)
        db.pragma("user_version", step.version)
    return had


MIGRATIONS = read_migrations()
SCHEMA_VERSION = MIGRATIONS[-1].version
