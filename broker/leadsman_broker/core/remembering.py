"""`once`: what an attempt did that must not be done again, told to the attempts after it.

The first value stored under a key stays, whoever stores another: so a call may be repeated, and an attempt that
was thought dead cannot change what the next one already builds on.
"""

from typing import TYPE_CHECKING

from leadsman_broker.core.commands import Once
from leadsman_broker.core.ids import parse_token
from leadsman_broker.core.results import Onced
from leadsman_broker.core.rows import OnceRow
from leadsman_broker.core.settlements import newest_of

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def once(state: "State", command: Once) -> Onced:
    """Store a value under a key, or answer with the one that is there.

    Valid like an ack: for the newest delivery, also between its reclaim and the next one, because what was done was
    done. The lease is not renewed by it.
    """
    token = parse_token(command.token)
    row = newest_of(state, command.namespace, token) if token is not None else None
    if row is None:
        return Onced(ok=False, code="lease_lost", detail="this lease is over; nothing was stored")
    stored = state.loaded.once.setdefault(row.id, {})
    if command.key in stored:
        return Onced(ok=True, value=stored[command.key])
    settings = state.settings
    if len(command.value) > settings.max_once_bytes:
        detail = f"{len(command.value)} bytes of JSON, at most {settings.max_once_bytes} are kept"
        return Onced(ok=False, code="value_too_large", detail=detail)
    if len(stored) >= settings.max_once_keys:
        return Onced(ok=False, code="too_many_keys", detail=f"a task keeps at most {settings.max_once_keys} keys")
    stored[command.key] = command.value
    state.out.once.append(OnceRow(row.seq, command.key, command.value))
    return Onced(ok=True, value=command.value, first=True)
