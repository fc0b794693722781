"""`leadsman explain`: why something is as it is."""

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from leadsman.cli import kubectl
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, ask, connect
from leadsman.cli.output import console, print_json, say, table
from leadsman.cli.pipes import until_reader_gone
from leadsman.cli.pool_report import changes, report
from leadsman.cli.tasks import HISTORY_COLUMNS, task_history
from leadsman.errors import LeadsmanError
from leadsman.wire.explanations import TaskExplanation
from leadsman.wire.stats import StatsSnapshot

explain = typer.Typer(help="Say why something is as it is.")

_PoolNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="[env LEADSMAN_NAMESPACE; the one of kubectl's context]"),
]


@explain.command("pool")
@until_reader_gone
def pool(
    name: Annotated[str, typer.Argument(help="The WorkerPool.", metavar="NAME")],
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: _PoolNamespace = None,
    token_file: TokenFile = None,
) -> int:
    """Say why a pool has the size it has: inputs, formula, each bound, and what would change it.

    The pool is read with kubectl. The numbers of this moment are added when the broker can be reached.
    """
    found = kubectl.get("workerpools.leadsman.dev", name, namespace or os.environ.get("LEADSMAN_NAMESPACE") or None)
    live: StatsSnapshot | None = None
    try:
        live = ask(connect(broker_url, found["metadata"]["namespace"], token_file), lambda client: client.stats())
    except LeadsmanError as error:
        say(f"without the numbers of this moment: {error}")
    if json_output:
        status = found.get("status") or {}
        print_json(
            {
                "pool": name,
                "namespace": found["metadata"]["namespace"],
                "last_decision": status.get("lastDecision"),
                "conditions": status.get("conditions") or [],
                "would_change_it": changes(found),
                "live": None if live is None else live.model_dump(mode="json", exclude_none=True),
            }
        )
        return 0
    shown = console()
    for part in report(found, live, datetime.now(UTC)):
        shown.print(part)
    return 0


@explain.command("task")
@until_reader_gone
def task(
    task_id: Annotated[str, typer.Argument(help="What `leadsman submit` printed.", metavar="ID")],
    *,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Say where a task stands, what holds it back, what is ahead of it and what would change that."""
    found = ask(connect(broker_url, namespace, token_file), lambda client: client.explain(task_id))
    if json_output:
        print_json(found)
        return 0
    shown = console()
    shown.print(table(("FIELD", "VALUE"), explanation_fields(found)))
    if found.task.history:
        shown.print()
        shown.print(table(HISTORY_COLUMNS, task_history(found.task)))
    return 0


def explanation_fields(found: TaskExplanation) -> list[tuple[str, str]]:
    """Return what there is to say: name and value of each field that has one."""
    view, ahead = found.task, found.ahead
    share = None
    if view.tenant and found.tenant_in_flight is not None:
        cap = "no cap" if found.tenant_cap is None else f"cap {found.tenant_cap}"
        share = f"{found.tenant_in_flight} in flight, {cap}"
    before = None
    if ahead is not None:
        before = (
            f"{ahead.higher_priority} of higher priority, {ahead.same_tenant} of its tenant, "
            f"{ahead.other_tenants} of other tenants"
        )
    fields = {
        "id": view.id,
        "state": str(view.state),
        "why": found.summary,
        "reason": None if found.reason is None else found.reason.value,
        "setting": found.setting,
        "ahead": before,
        "queue": f"{view.namespace}/{view.capability}",
        "in flight": None if found.queue_in_flight is None else f"{found.queue_in_flight} of the queue",
        "free slots": None if found.free_slots is None else str(found.free_slots),
        "class": f"{view.task_class}, priority {view.priority}",
        "tenant": view.tenant or None,
        "share": share,
    }
    return [(name, value) for name, value in fields.items() if value]
