"""What capabilities, tenants, runs and tasks cost."""

from leadsman.wire.costs import BudgetLevel, BudgetView, CostBy, CostLine, CostReport
from leadsman.wire.problems import ProblemCode
from leadsman_broker.core.accounts import Account, Budget
from leadsman_broker.engine import Engine
from leadsman_broker.http.exchange import Exchange, Response, bad_query, json_response
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.routing import CAPABILITY, READERS, Parameter, Route
from leadsman_broker.store import cost

ITEMS = 100
MAX_ITEMS = 1000
DEFAULT_SECONDS = 86_400.0
MAX_SECONDS = 31_536_000.0


class CostCalls:
    """The handlers of this module's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """List the calls."""
        return [
            Route(
                "GET",
                "/v1/namespaces/{namespace}/cost",
                self.cost,
                READERS,
                "Add up what attempts used",
                reply=CostReport,
                parameters=(
                    Parameter(
                        "by",
                        "what a line stands for",
                        {"enum": [by.value for by in CostBy], "default": CostBy.CAPABILITY.value},
                    ),
                    Parameter(
                        "since_seconds",
                        "how far back: attempts leased in these last seconds",
                        {"type": "number", "default": DEFAULT_SECONDS, "minimum": 0, "maximum": MAX_SECONDS},
                    ),
                    Parameter("capability", "only attempts of this queue", {"type": "string"}),
                    Parameter("tenant", "only attempts for this tenant", {"type": "string"}),
                    Parameter("run", "only attempts of this run", {"type": "string"}),
                    Parameter(
                        "limit",
                        f"lines at most, up to {MAX_ITEMS}; the dearest come first",
                        {"type": "integer", "default": ITEMS},
                    ),
                ),
            ),
            Route(
                "GET",
                CAPABILITY + "/budget",
                self.budget,
                READERS,
                "Read what the budget of a queue has used in its present window",
                reply=BudgetView,
                statuses=(404,),
            ),
        ]

    async def budget(self, exchange: Exchange) -> Response:
        """Read a budget."""
        key = (exchange.namespace, exchange.path["name"])
        budget = self._engine.core.budget(key)
        if budget is None:
            raise ProblemError(
                404, ProblemCode.NOT_FOUND, f"namespace {key[0]} has no capability {key[1]} with a budget"
            )
        return json_response(
            BudgetView(
                namespace=key[0],
                capability=key[1],
                window=budget.rules.window.value,
                starts_at=budget.starts_at,
                ends_at=budget.ends_at,
                levels=_levels(budget),
            )
        )

    async def cost(self, exchange: Exchange) -> Response:
        """Report the cost of a namespace."""
        query = exchange.query(("by", "since_seconds", "capability", "tenant", "run", "limit"))
        until = self._engine.clock.now()
        by = _by(query.get("by"))
        asked = cost.CostQuery(
            exchange.namespace,
            since=until - _seconds(query.get("since_seconds")),
            until=until + 1.0,  # what was leased in this very moment counts
            limit=_limit(query.get("limit")),
            by=by,
            capability=query.get("capability"),
            tenant=query.get("tenant"),
            run_id=query.get("run"),
        )
        items = await self._engine.cost(asked)
        totals = await self._engine.cost(asked._replace(by=None))
        return json_response(
            CostReport(
                since=asked.since,
                until=until,
                by=by,
                total=_line(totals[0] if totals else cost.NOTHING_USED),
                items=[_line(item) for item in items],
            )
        )


def _levels(budget: Budget) -> list[BudgetLevel]:
    accounts = budget.accounts()
    tenants = [tenant for tenant in accounts if tenant is not None]
    tenants.sort(key=lambda tenant: (accounts[tenant].charged[::-1], tenant), reverse=True)
    return [_level(budget, tenant) for tenant in (None, *tenants[:ITEMS])]


def _level(budget: Budget, tenant: str | None) -> BudgetLevel:
    account = budget.accounts().get(tenant) or Account(budget.starts_at)
    max_tokens, max_cost_micros = budget.caps(tenant)
    return BudgetLevel(
        tenant=tenant,
        max_tokens=max_tokens,
        tokens=account.settled.tokens,
        reserved_tokens=account.reserved.tokens,
        max_cost_micros=max_cost_micros,
        cost_micros=account.settled.cost_micros,
        reserved_cost_micros=account.reserved.cost_micros,
    )


def _line(line: cost.CostLine) -> CostLine:
    usage, lost = line.usage, line.lost_usage
    ended = line.attempts - line.running
    share = None
    if usage.cost_micros:
        share = lost.cost_micros / usage.cost_micros
    elif usage.tokens:
        share = lost.tokens / usage.tokens
    return CostLine(
        item=line.item,
        attempts=line.attempts,
        running=line.running,
        completed=line.completed,
        failed=line.failed,
        released=line.released,
        lost=line.lost,
        tokens=usage.tokens,
        cost_micros=usage.cost_micros,
        lost_tokens=lost.tokens,
        lost_cost_micros=lost.cost_micros,
        tokens_per_completed=usage.tokens / line.completed if line.completed else None,
        cost_micros_per_completed=usage.cost_micros / line.completed if line.completed else None,
        duplicate_share=share,
        reclaim_rate=line.lost / ended if ended else None,
    )


def _by(text: str | None) -> CostBy:
    try:
        return CostBy(text) if text is not None else CostBy.CAPABILITY
    except ValueError as error:
        raise bad_query("by", f"must be one of {', '.join(CostBy)}") from error


def _seconds(text: str | None) -> float:
    try:
        seconds = DEFAULT_SECONDS if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        raise bad_query("since_seconds", f"must be a number of seconds from 0 to {MAX_SECONDS:.0f}")
    return seconds


def _limit(text: str | None) -> int:
    if text is None:
        return ITEMS
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= MAX_ITEMS):
        raise bad_query("limit", f"must be a whole number from 1 to {MAX_ITEMS}")
    return int(text)
