"""Money: reports are booked once and on themselves, budgets and runs keep to their caps, and sums are right."""

from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from core_simulation.features.workers import Workers
from core_simulation.world import CAPABILITIES, Hand, World
from leadsman.wire.capabilities import BudgetRules, BudgetWindow
from leadsman.wire.costs import Usage as WireUsage
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Step
from leadsman_broker.core.ids import seq_of
from leadsman_broker.core.results import Granted, RunPut
from leadsman_broker.core.rows import AttemptOutcome, Caps
from leadsman_broker.core.usage import NOTHING, Estimate, Usage

RUNS = ("r1", "r2", "r3")
MOST = 4
"""Tokens of one report, below every estimate: then only interactive tasks and many reports pass a cap."""


class Money(Feature):
    """Keeps the largest report of every delivery, and recounts ledger, runs and budgets from it."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.reported: dict[tuple[str, int], Usage] = {}
        self.unsure: dict[tuple[str, int], Usage] = {}
        """The largest that was sent, answered or not: no more can be booked."""
        self._classes: set[TaskClass] = set()
        self._changed_at = 0.0
        """When a budget was changed last: what was leased in that moment may be over the new one."""
        self._interactive_at: dict[str, float] = {}
        """When a queue gave out interactive work last, which may go over the budget and have ended since."""

    def rules(self, capability, dice):
        if dice.random() < 0.5:
            return {}
        window = dice.choice([BudgetWindow.HOUR, BudgetWindow.DAY])
        estimate = WireUsage(tokens=5)
        tenant = dice.choice([None, 10])
        return {
            "budget": BudgetRules(
                window=window, tokens=dice.choice([5, 15, 60]), tenant_tokens=None, estimate=estimate
            )
            if tenant is None
            else BudgetRules(window=window, tenant_tokens=tenant, estimate=estimate)
        }

    def actions(self):
        return [
            (15, self.report),
            (12, self.submit_to_a_run),
            (3, self.cap_a_run),
            (2, self.cancel_a_run),
            (6, self.follow_up),
            (2, self.wait_for_the_next_window),
            (3, self.change_a_budget),
        ]

    def report(self, dice: Random) -> None:
        """A worker says what its attempts have used; now and then one that has lost its lease does."""
        hand = dice.choice(self.world.hands)
        tokens = sorted(hand.held)
        old = sorted(self._workers().old)
        if old and dice.random() < 0.4:
            tokens.append(dice.choice(old))
        if not tokens:
            return
        token = dice.choice(tokens)
        task_id, epoch, _ = token.split(":")
        key = (task_id, int(epoch))
        usage = self.reported.get(key, NOTHING).plus(Usage(dice.randrange(MOST), dice.randrange(3)))
        beats = tuple(c.Beat(one, usage=usage if one == token else None) for one in sorted({*hand.held, token}))
        command = c.Heartbeat(hand.who(), hand.capabilities, hand.slots, draining=hand.draining, leases=beats)
        self.unsure[key] = self.unsure.get(key, NOTHING).raised_to(usage)
        answered = self.world.turn(command, fate=self.world.fate(dice)) is not None
        if answered and self._is_known(task_id):
            self.reported[key] = self.reported.get(key, NOTHING).raised_to(usage)

    def submit_to_a_run(self, dice: Random) -> None:
        task = c.NewTask(
            dice.choice(CAPABILITIES),
            run_id=dice.choice(RUNS),
            tenant=dice.choice(["", "acme"]),
            task_class=dice.choice([TaskClass.BACKGROUND, TaskClass.INTERACTIVE]),
            delay_seconds=dice.choice([0.0, 0.0, 5.0]),
            estimate=dice.choice([None, Estimate(tokens=5), Estimate(tokens=12)]),
        )
        self.world.turn(c.Enqueue(NAMESPACE, (task,) * dice.choice([1, 3])), fate=self.world.fate(dice))

    def cap_a_run(self, dice: Random) -> None:
        caps = Caps(dice.choice([None, 6]), None, dice.choice([None, 60.0]), dice.choice([None, 4]))
        self.world.turn(c.PutRun(NAMESPACE, dice.choice(RUNS), caps), fate=self.world.fate(dice))

    def cancel_a_run(self, dice: Random) -> None:
        run_id = dice.choice(RUNS)
        before = self.world.store.run(NAMESPACE, run_id)
        results = self.world.turn(c.CancelRun(NAMESPACE, run_id), fate=self.world.fate(dice))
        if results is not None:
            (result,) = results
            assert isinstance(result, RunPut)
            assert (result.state is None) == (before is None)
            assert result.changed == (before is not None and before.state is RunState.RUNNING)

    def follow_up(self, dice: Random) -> None:
        """A worker acks with the next step."""
        hand = dice.choice(self.world.hands)
        listed = sorted(key[1] for key, queue in self.world.core.state.queues.items() if queue.configured)
        if hand.held and listed:
            token = dice.choice(sorted(hand.held))
            ack = c.Ack(NAMESPACE, token, tasks=(c.NewTask(dice.choice(listed)),))
            self._workers()._settle(hand, token, [ack], dice)

    def wait_for_the_next_window(self, dice: Random) -> None:
        """At once: hours in steps would be most of the time of a schedule."""
        self.world.now += dice.choice([1_800.0, 3_600.0, 86_400.0])
        self.world.turn()

    def change_a_budget(self, dice: Random) -> None:
        """It may fall below what a queued task may use by its own estimate, and rise again."""
        name = dice.choice(CAPABILITIES)
        budget = self.world.rules[name].budget
        if budget is None:
            return
        level = "tokens" if budget.tenant_tokens is None else "tenant_tokens"
        changed = budget.model_copy(update={level: dice.choice([5, 15, 60])})
        self.world.rules[name] = self.world.rules[name].model_copy(update={"budget": changed})
        self.world.note(f"the budget of {name} is now {level}={getattr(changed, level)}")
        self._changed_at = max(self.world.now, self.world.core.state.now)
        self.world.configure(self.world.rules)

    def granted(self, hand: Hand, lease: Granted, *, repeated: bool) -> None:
        if not repeated:
            self._classes.add(lease.task_class)

    def committed(self, step: Step) -> None:
        self._classes.clear()
        for answer in step.answers:
            for lease in answer.leases:
                if lease.task_class is TaskClass.INTERACTIVE:
                    self._interactive_at[lease.capability] = self.world.core.state.now

    def check(self) -> None:
        self._check_ledger()
        self._check_runs()
        if self._classes == {TaskClass.BACKGROUND}:
            self._check_caps()
        self._classes.clear()

    def heal(self) -> None:
        rules = self.world.rules
        self.world.rules = {name: one.model_copy(update={"budget": None}) for name, one in rules.items()}
        self.world.configure(self.world.rules)

    def _is_known(self, task_id: str) -> bool:
        """Whether a report can be booked: the tokens of a task that was purged cannot be told from forged ones."""
        tables = self.world.tables
        seq = seq_of(task_id) or 0
        return seq in tables.live or seq in tables.ended

    def _check_ledger(self) -> None:
        rows = self.world.tables.ledger
        for row in rows.values():
            key = (row.task_id, row.epoch)
            sure, most = self.reported.get(key, NOTHING), self.unsure.get(key, NOTHING)
            assert row.usage.raised_to(sure) == row.usage, f"{key} is booked for {row.usage}, not {sure}"
            assert row.usage.raised_to(most) == most, f"{key} is booked for {row.usage}, and said {most}"
        booked = {(row.task_id, row.epoch) for row in rows.values()}
        assert {key for key, usage in self.reported.items() if any(usage)} <= booked, "a report is lost"
        live = self.world.core.state.tasks
        for row in rows.values():
            task = live.get(row.seq)
            held = task is not None and task.lease is not None and task.epoch == row.epoch
            assert (row.outcome is AttemptOutcome.RUNNING) == held, f"{row} and its lease differ"

    def _check_runs(self) -> None:
        tables = self.world.tables
        for (_, run_id), run in tables.runs.items():
            rows = [row for row in tables.ledger.values() if row.run_id == run_id]
            used = lost = NOTHING
            for row in rows:
                used = used.plus(row.usage)
                lost = lost.plus(row.usage if row.outcome is AttemptOutcome.LOST else NOTHING)
            assert (run.usage, run.lost_usage) == (used, lost), f"{run_id}: {run.usage}, recounted {used}"
            members = [row for row in tables.live.values() if row.run_id == run_id]
            assert run.live == len(members)
            if run.state in {RunState.FAILED, RunState.CANCELLED}:
                assert all(row.standing.lease_pod is not None and row.standing.cancel for row in members)
            else:
                assert (run.state is RunState.RUNNING) == bool(members) or run.accepted == 0
                assert run.caps.tokens is None or used.tokens <= run.caps.tokens or not members

    def _check_caps(self) -> None:
        """Background tasks are leased only where there is room."""
        if self.world.core.state.now == self._changed_at:
            return
        for key, queue in self.world.core.state.queues.items():
            budget = queue.budget
            if self._interactive_at.get(key[1]) == self.world.core.state.now:
                continue
            if budget is None or any(row.task_class is TaskClass.INTERACTIVE for row in self._leased(key)):
                continue
            fresh = [
                row for row in self._leased(key) if row.lease and row.lease.started_at == self.world.core.state.now
            ]
            for row in fresh:
                for level in budget.levels(row.tenant):
                    cap, _ = budget.caps(level)
                    charged = budget.account(level).charged.tokens
                    assert cap is None or charged <= cap, f"{key} {level}: {charged} charged of {cap}"

    def _leased(self, key):
        rows = self.world.core.state.tasks.values()
        return [row for row in rows if row.state is TaskState.LEASED and row.queue.key == key]

    def _workers(self) -> Workers:
        return next(feature for feature in self.world.features if isinstance(feature, Workers))


FEATURE = Money
