"""`leadsman cost`: what was spent, and how much of it in vain."""

from typing import Annotated

import typer

from leadsman.cli.durations import duration
from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, ask, connect
from leadsman.cli.output import console, print_json, say, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.wire.costs import CostBy, CostLine

_NUMBERS = ("ATTEMPTS", "COMPLETED", "TOKENS", "COST", "PER TASK", "DUPLICATE", "RECLAIMED")


@until_reader_gone
def cost(
    *,
    by: Annotated[CostBy, typer.Option("--by", help="What a line stands for.")] = CostBy.CAPABILITY,
    since: Annotated[
        float, typer.Option("--since", help="How far back: 90s, 30m, 24h, 7d.", parser=duration, metavar="TIME")
    ] = "24h",  # type: ignore[assignment]  # typer gives the default to the parser
    capability: Annotated[str | None, typer.Option("--capability", help="Only this queue.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="Only this run.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many lines.", min=1, max=1000)] = 100,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Show what attempts used, the dearest first.

    COMPLETED counts tasks; PER TASK is all the money, that of failed and superseded attempts included, over them.
    DUPLICATE is the share of the money that attempts spent which had lost their lease, RECLAIMED their share in
    number.
    """
    choices = {"capability": capability, "tenant": tenant, "run": run}
    wanted = {name: one for name, one in choices.items() if one}
    report = ask(
        connect(broker_url, namespace, token_file),
        lambda client: client.cost(by, since_seconds=since, limit=limit, **wanted),
    )
    if json_output:
        print_json(report)
    elif report.items:
        rows = [_row(line) for line in report.items]
        console().print(table((by.value.upper(), *_NUMBERS), [*rows, _row(report.total, "total")], right=_NUMBERS))
    else:
        say("no attempt reported usage in this time")
    return Exit.OK


def _row(line: CostLine, name: str | None = None) -> tuple[str, ...]:
    per_task = line.cost_micros_per_completed
    return (
        name or line.item or "-",
        str(line.attempts),
        str(line.completed),
        str(line.tokens),
        money(line.cost_micros),
        "-" if per_task is None else money(per_task),
        "-" if line.duplicate_share is None else f"{line.duplicate_share:.1%}",
        "-" if line.reclaim_rate is None else f"{line.reclaim_rate:.1%}",
    )


def money(micros: float) -> str:
    """Return an amount in units, with four decimals: single calls cost fractions of a cent."""
    return f"{micros / 1_000_000:.4f}"
