"""What a person sees: a time line, and on a terminal a table below it that follows along."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.installation import POOLS
from demo.outcome import Outcome
from demo.record import Record

_STYLES = {"scale": "bold cyan", "event": "dim", "kill": "bold red", "task": "green", "batch": "bold"}


class Screen:
    """Prints the steps, the time line and the summary."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()

    def start_clock(self) -> None:
        """Count the time line from here: the batch is submitted now."""
        self._started = time.monotonic()

    def clock(self) -> float:
        """Return the seconds since then."""
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """Show a step of the preparation."""
        self._console.print("• ", style="bold", end="")
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def tell(self, kind: str, about: str, text: str) -> None:
        """Show one line of the time line."""
        style = _STYLES.get(kind, "")
        self._console.print(f"{self.clock():7.2f} s  ", end="", style="dim", highlight=False)
        self._console.print(
            f"{kind:6} {about:8} {text}", style=style, markup=False, highlight=False, soft_wrap=True
        )

    @contextmanager
    def following(self, record: Record) -> Iterator[None]:
        """On a terminal, keep a table of the pools and queues at the bottom while the block runs."""
        if not self._console.is_terminal:
            yield
            return
        with Live(
            get_renderable=lambda: table(record), console=self._console, refresh_per_second=4, transient=True
        ):
            yield

    def snapshot(self, record: Record) -> None:
        """Print the table once, where it stays."""
        self._console.print(table(record))

    def close(self, outcome: Outcome, story: list[str]) -> None:
        """Print the summary: the story in words, and what did not hold."""
        self._console.rule("summary")
        for line in story:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        broken = outcome.broken_promises()
        for line in broken:
            self._console.print(f"NOT AS PROMISED: {line}", style="bold red", markup=False)
        if not broken:
            self._console.print("Every promise held.", style="bold green")

    def plain(self, text: str) -> None:
        """Print text as it is, for copying."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def table(record: Record) -> Table:
    """Lay pools and their queues side by side, as last heard."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("pool", "replicas", "ready", "busy", "idle", "waiting", "running", "done", "reclaimed"):
        shown.add_column(column, justify="left" if column == "pool" else "right")
    for pool in POOLS:
        workers = record.present_workers(pool)
        queue = record.capabilities.get(pool)
        shown.add_row(
            pool,
            str(record.replicas.get(pool, 0)),
            str(record.ready.get(pool, 0)),
            str(sum(worker.leases > 0 for worker in workers)),
            str(sum(worker.leases == 0 for worker in workers)),
            *(
                str(value)
                for value in (
                    (queue.ready, queue.leased, queue.completed_total, queue.reclaimed_total)
                    if queue
                    else ("",) * 4
                )
            ),
        )
    return shown
