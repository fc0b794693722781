"""The accounts of one budget in its present window."""

from datetime import UTC, datetime

from leadsman.wire.capabilities import BudgetRules, BudgetWindow
from leadsman_broker.core.usage import NOTHING, Usage

_SECONDS = {BudgetWindow.HOUR: 3_600.0, BudgetWindow.DAY: 86_400.0}


def window_at(window: BudgetWindow, now: float) -> tuple[float, float]:
    """Return the begin and the end of the window that `now` is in, by UTC."""
    seconds = _SECONDS.get(window)
    if seconds is not None:
        starts_at = now // seconds * seconds
        return starts_at, starts_at + seconds
    first = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return first.timestamp(), after.timestamp()


class Account:
    """What one level, the queue or a tenant, was charged in one window."""

    __slots__ = ("reserved", "settled", "starts_at")

    def __init__(self, starts_at: float, settled: Usage = NOTHING) -> None:
        self.starts_at = starts_at
        self.settled = settled
        """By attempts that have ended."""
        self.reserved = NOTHING
        """By attempts that run."""

    @property
    def charged(self) -> Usage:
        """Return both together."""
        return self.settled.plus(self.reserved)


class Budget:
    """The accounts of a queue and its tenants, empty again when the window turns."""

    __slots__ = ("_accounts", "ends_at", "rules", "starts_at")

    def __init__(self, rules: BudgetRules, now: float) -> None:
        self.rules = rules
        self.starts_at, self.ends_at = window_at(rules.window, now)
        self._accounts: dict[str | None, Account] = {}

    def account(self, tenant: str | None) -> Account:
        """Return the account of a tenant, or (None) of the queue."""
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = Account(self.starts_at)
        return account

    def levels(self, tenant: str) -> tuple[str | None, ...]:
        """Return the levels that an attempt for this tenant counts at."""
        return (None, tenant) if tenant else (None,)

    def accounts(self) -> dict[str | None, Account]:
        """Return those that were charged anything."""
        return self._accounts

    def caps(self, tenant: str | None) -> tuple[int | None, int | None]:
        """Return the caps of a level: tokens, money."""
        rules = self.rules
        if tenant is None:
            return rules.tokens, rules.cost_micros
        return rules.tenant_tokens, rules.tenant_cost_micros

    def has_room(self, tenant: str | None, estimate: Usage) -> bool:
        """Say whether a level can be charged this much more."""
        after = self.account(tenant).charged.plus(estimate)
        return all(cap is None or used <= cap for cap, used in zip(self.caps(tenant), after, strict=True))

    def turn(self, now: float) -> None:
        """Start the window that `now` is in, from zero."""
        self.starts_at, self.ends_at = window_at(self.rules.window, now)
        self._accounts = {}
