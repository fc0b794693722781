"""Task ids and lease tokens: how they are made and taken apart.

A task id carries its seq, so ids sort in order of acceptance and a store finds the row without another index. The
random part keeps an id from meaning another task after a restore of an older backup.
"""

import re
from typing import NamedTuple

from leadsman_broker.core.randomness import Randomness

_ID = re.compile(r"[0-9a-f]{12}[0-9a-f]{8}\Z")
_TOKEN = re.compile(r"([0-9a-f]{12}[0-9a-f]{8}):([1-9][0-9]{0,8}):(.+)\Z", re.DOTALL)


class Token(NamedTuple):
    """A lease token taken apart: which task, which delivery of it, and the part that cannot be guessed."""

    task_id: str
    epoch: int
    secret: str
    seq: int
    """Of the task, as its id says."""


def new_task_id(seq: int, rand: Randomness) -> str:
    """Make the id of the task with this seq."""
    return f"{seq:012x}{rand.getrandbits(32):08x}"


def seq_of(task_id: str) -> int | None:
    """Return the seq in a task id, or None when it cannot be one of ours."""
    return int(task_id[:12], 16) if _ID.match(task_id) else None


def new_secret(rand: Randomness) -> str:
    """Make the random part of a lease token."""
    return f"{rand.getrandbits(80):020x}"


def make_token(task_id: str, epoch: int, secret: str) -> str:
    """Put a lease token together."""
    return f"{task_id}:{epoch}:{secret}"


def parse_token(token: str) -> Token | None:
    """Take a lease token apart; None when it cannot be one of ours.

    A token has one spelling, so that the one of a lease in force is found as it is, see `State.held`.
    """
    found = _TOKEN.match(token)
    if found is None:
        return None
    task_id, epoch, secret = found.groups()
    return Token(task_id, int(epoch), secret, int(task_id[:12], 16))
