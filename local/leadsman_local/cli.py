"""The commands that this package adds to `leadsman`: simulate, dev and export-trace.

Each imports what it needs when it runs: `leadsman --help` lists them all.
"""

from pathlib import Path
from typing import Annotated

import typer

from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile


def simulate(
    scenarios: Annotated[
        list[Path],
        typer.Argument(help="A scenario, see docs/simulator.md; with --compare several.", metavar="FILE"),
    ],
    *,
    compare: Annotated[bool, typer.Option("--compare", help="Put several scenarios side by side.")] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep", help="Try settings: pools.browser.maxReplicas=5,10,20. Repeatable.", metavar="PATH=A,B"
        ),
    ] = None,
    age_target: Annotated[
        float | None,
        typer.Option(
            "--age-target", help="With --sweep: name the cheapest setting whose oldest task is younger (s)."
        ),
    ] = None,
    percentile: Annotated[
        str, typer.Option("--percentile", help="Of the oldest age, for --age-target: p50, p95, p99 or p100.")
    ] = "p99",
    seed: Annotated[int | None, typer.Option("--seed", help="Another course of chance.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the curves: a .png or .svg file (extra: plots).")
    ] = None,
    curves: Annotated[bool, typer.Option("--curves", help="With --json: every point of the curves too.")] = False,
    json_output: JsonOutput = False,
) -> int:
    """Play a scenario through the real broker core and scaling decisions on a virtual clock."""
    from leadsman_local.simulator import command  # noqa: PLC0415 - see above

    return command.run(
        scenarios, compare=compare, sweep=sweep or [], age_target=age_target, percentile=percentile, seed=seed,
        plot=plot, curves=curves, json_output=json_output,
    )  # fmt: skip


def dev(
    *,
    files: Annotated[
        list[Path], typer.Option("--file", "-f", help="Capabilities and WorkerPools, as for a cluster. Repeatable.")
    ],
    app: Annotated[
        str | None,
        typer.Option(
            "--app", help="What the workers run, in place of the image: handlers:app.", metavar="MODULE:APP"
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--data", help="Queues, logs and status; kept from run to run.")] = Path(
        ".leadsman"
    ),
    namespace: Annotated[str, typer.Option("--namespace", "-n")] = "default",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the broker; 0: a free one.")] = 8080,
    ops_port: Annotated[
        int, typer.Option("--ops-port", min=0, max=65535, help="Of the scaler's metrics; 0: a free one.")
    ] = 0,
    max_processes: Annotated[
        int, typer.Option("--max-processes", min=1, max=1000, help="Workers at once, over all pools.")
    ] = 8,
    reload: Annotated[bool, typer.Option("--reload/--no-reload", help="Take up changed YAML and code.")] = True,
) -> int:
    """Run the broker, the scaler and the workers on this computer until Ctrl-C; workers drain then."""
    from leadsman_local.dev import command  # noqa: PLC0415 - see above
    from leadsman_local.dev.system import Options  # noqa: PLC0415 - see above

    return command.run(
        Options(
            files=tuple(files), app=app, folder=folder, namespace=namespace, port=port, ops_port=ops_port,
            max_processes=max_processes, reload=reload,
        )
    )  # fmt: skip


def export_trace(
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write to this file. [default: standard output]")
    ] = None,
    capability: Annotated[str | None, typer.Option("--capability", help="Only this one's tasks.")] = None,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Write when a running broker's tasks came and how long they took, as arrivals for a scenario."""
    from leadsman_local.simulator import exporting  # noqa: PLC0415 - see above

    return exporting.run(out, capability, broker_url, namespace, token_file)
