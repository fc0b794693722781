"""`leadsman budget`: what is left of a queue's budget."""

import time
from typing import Annotated

import typer

from leadsman.cli.cost import money
from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, ask, connect
from leadsman.cli.output import age, console, print_json, say, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.wire.costs import BudgetLevel

_NUMBERS = ("TOKENS", "RESERVED", "OF", "COST", "RESERVED COST", "OF COST")


@until_reader_gone
def budget(
    capability: Annotated[str, typer.Argument(help="The queue.", metavar="CAPABILITY")],
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Show what the budget of a queue, and of its tenants, has used in the present window."""
    view = ask(connect(broker_url, namespace, token_file), lambda client: client.budget(capability))
    if json_output:
        print_json(view)
        return Exit.OK
    console().print(table(("LEVEL", *_NUMBERS), [_row(level) for level in view.levels], right=_NUMBERS))
    say(f"the window ({view.window}) ends in {age(view.ends_at - time.time())}")
    return Exit.OK


def _row(level: BudgetLevel) -> tuple[str, ...]:
    return (
        "queue" if level.tenant is None else f"tenant {level.tenant}",
        str(level.tokens),
        str(level.reserved_tokens),
        "-" if level.max_tokens is None else str(level.max_tokens),
        money(level.cost_micros),
        money(level.reserved_cost_micros),
        "-" if level.max_cost_micros is None else money(level.max_cost_micros),
    )
