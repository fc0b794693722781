"""Rows that are made of all their values at once have one for every field, of the kind that the field says."""

import typing

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman_broker.core import commands as c
from leadsman_broker.core.rows import Loaded


def rows_of_a_life():
    """Every row of a task that is accepted, leased and completed."""
    rig = Rig()

    def step(*commands):
        return rig.core.step(commands, Loaded(), rig.now, rig.rand)

    (accepted,) = step(c.Enqueue(NAMESPACE, (c.NewTask(CAPABILITY),))).changes.accepted
    leased = step(c.Lease(1, c.Worker(NAMESPACE, "pod", "1"), (CAPABILITY,), 1, 1, "a1"))
    (granted,) = leased.answers[0].leases
    (updated,) = leased.changes.updated
    (ending,) = step(c.Ack(NAMESPACE, granted.token, b"1")).changes.ended
    return [
        accepted,
        accepted.live,
        accepted.live.standing,
        granted,
        updated,
        updated.standing,
        ending,
        ending.ended,
        ending.ended.live.standing,
    ]


@pytest.mark.parametrize("row", rows_of_a_life(), ids=lambda row: type(row).__name__)
def test_a_row_has_a_value_of_the_right_kind_in_every_field(row):
    kinds = typing.get_type_hints(type(row))
    assert len(row) == len(kinds)
    for name, kind in kinds.items():
        allowed = [typing.get_origin(each) or each for each in typing.get_args(kind) or (kind,)]
        if float in allowed:
            allowed.append(int)
        assert isinstance(getattr(row, name), tuple(allowed)), name
