"""`once`: the first value under a key stays, is every answer, and is handed to every later attempt."""

import json
from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from core_simulation.world import Hand, World
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Step
from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.results import Granted


class Effects(Feature):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.stored: dict[int, dict[str, bytes]] = {}
        """What was committed, by task."""
        self.tokens: list[str] = []
        self.newest: dict[str, int] = {}
        """Task -> the highest epoch that any worker has heard of."""

    def actions(self):
        return [(10, self.once)]

    def once(self, dice: Random) -> None:
        if not self.tokens:
            return
        token = dice.choice(self.tokens[-8:])
        task_id, epoch, _ = token.split(":")
        key, value = dice.choice("abc"), f'"{token}"'.encode()
        superseded = self.newest.get(task_id, 0) > int(epoch)
        before = dict(self.stored.get(seq_of(task_id) or 0, {}))
        results = self.world.turn(c.Once(NAMESPACE, token, key, value), fate=self.world.fate(dice))
        if results is None:
            return
        (onced,) = results
        self.world.note(f"once {key} for {token[:16]}: {onced.code or onced.value!r}")
        if onced.ok:
            assert not superseded, "an attempt that another has followed stored a value"
            assert onced.value == before.get(key, value), "an answer is not the first value"
            assert onced.first == (key not in before)

    def committed(self, step: Step) -> None:
        for row in step.changes.once:
            known = self.stored.setdefault(row.seq, {})
            assert row.key not in known, "a value was stored over another"
            known[row.key] = row.value

    def granted(self, hand: Hand, lease: Granted, *, repeated: bool) -> None:
        self.tokens.append(lease.token)
        self.newest[lease.task_id] = max(self.newest.get(lease.task_id, 0), lease.epoch)
        delivery = self.world.store.deliveries([lease.task_id]).get(lease.task_id)
        if delivery is not None:
            known = self.stored.get(seq_of(lease.task_id) or 0, {})
            wanted = {key: json.loads(value) for key, value in known.items()}
            assert (json.loads(delivery.once) if delivery.once else {}) == wanted


FEATURE = Effects
