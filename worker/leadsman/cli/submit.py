"""`leadsman submit`: one task, many of the same, or a file of them."""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from leadsman.cli.exits import Exit
from leadsman.cli.options import BrokerUrl, JsonOutput, Namespace, TokenFile, connect
from leadsman.cli.output import as_json, print_json, say
from leadsman.cli.pipes import until_reader_gone
from leadsman.client import Client
from leadsman.client.asynchronous import why_ended
from leadsman.client.submission import checked
from leadsman.errors import InvalidValueError, LeadsmanError
from leadsman.wire.base import MAX_BATCH
from leadsman.wire.tasks import SubmitResult, TaskClass, TaskState, TaskSubmit, TaskView


@until_reader_gone
def submit(
    capability: Annotated[str, typer.Argument(help="The queue.", metavar="CAPABILITY")],
    *,
    payload: Annotated[
        str | None, typer.Option("--payload", "-p", help="JSON; '-' reads standard input.", metavar="JSON")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help='JSON lines, each a task: {"payload": ..., "idempotency_key": ...}; "-" reads standard input.',
            allow_dash=True,
            metavar="TASKS.JSONL",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Which handler of the capability.")] = "default",
    priority: Annotated[int | None, typer.Option("--priority", help="0 to 9, higher first.")] = None,
    task_class: Annotated[
        TaskClass, typer.Option("--class", help="Whether a person waits for it.")
    ] = TaskClass.BACKGROUND,
    tenant: Annotated[str, typer.Option("--tenant", help="On whose behalf.")] = "",
    key: Annotated[
        str | None,
        typer.Option("--key", help="Idempotency key; several tasks get KEY-0, KEY-1, ..., so repeating is safe."),
    ] = None,
    delay: Annotated[float, typer.Option("--delay", help="Seconds before it may run.")] = 0.0,
    ttl: Annotated[float | None, typer.Option("--ttl", help="Seconds after which it is not worth running.")] = None,
    max_attempts: Annotated[int | None, typer.Option("--max-attempts", help="Instead of the capability's.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="The run it belongs to, new or known.")] = None,
    count: Annotated[int, typer.Option("--count", help="Submit the same payload so many times.", min=1)] = 1,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the results and print them.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="With --wait: seconds, then exit 6.", min=0)
    ] = None,
    wait_for_room: Annotated[
        float, typer.Option("--wait-for-room", help="Seconds to keep trying while the queue is full.", min=0)
    ] = 0.0,
    json_output: JsonOutput = False,
    broker_url: BrokerUrl = None,
    namespace: Namespace = None,
    token_file: TokenFile = None,
) -> int:
    """Submit tasks to a capability's queue.

    Prints the task's id; for several, a summary. Exit code 3 when the queue was full.
    """
    if payload is not None and file is not None:
        raise typer.BadParameter("give --payload or --file, not both")
    if file is not None and count > 1:
        raise typer.BadParameter("--count goes with --payload, not with --file")
    defaults: dict[str, Any] = {
        "capability": capability,
        "name": name,
        "priority": priority,
        "class": task_class,
        "tenant": tenant,
        "delay_seconds": delay,
        "ttl_seconds": ttl,
        "max_attempts": max_attempts,
        "run_id": run_id,
    }
    if file is not None:
        tasks = list(_from_file(file, defaults))
    else:
        one = defaults | {"payload": _json(_given(payload), "--payload") if payload is not None else None}
        tasks = [checked(one, "the task")] * count
    tasks = _keyed(tasks, key)
    client = connect(broker_url, namespace, token_file)
    command = _Submitting(client, tasks, wait_for_room=wait_for_room, json_output=json_output)
    return asyncio.run(command.run(wait=wait, wait_seconds=timeout))


class _Submitting:
    """One run of the command."""

    def __init__(
        self, client: Client, tasks: Sequence[TaskSubmit], *, wait_for_room: float, json_output: bool
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._wait_for_room = wait_for_room
        self._json = json_output
        self._code = Exit.OK

    async def run(self, *, wait: bool, wait_seconds: float | None) -> Exit:
        async with self._client:
            results = await self._submit()
            self._report(results, quiet=wait and not self._json)
            if wait:
                ids = [result.id for result in results if result.id is not None]
                await self._await_all(ids, wait_seconds)
        return self._code

    async def _submit(self) -> list[SubmitResult]:
        results: list[SubmitResult] = []
        try:
            with _progress("submitting", len(self._tasks), hidden=self._json) as progress:
                for start in range(0, len(self._tasks), MAX_BATCH):
                    batch = self._tasks[start : start + MAX_BATCH]
                    results += await self._client.submit_many(batch, wait_for_room_seconds=self._wait_for_room)
                    progress.advance(progress.task_ids[0], len(batch))
        except LeadsmanError as error:
            if len(self._tasks) > MAX_BATCH and error.submission is not None:
                done = len(results) + len(error.submission.results)
                say(f"{done} of {len(self._tasks)} tasks were answered before this error")
            raise
        return results

    def _report(self, results: Sequence[SubmitResult], *, quiet: bool) -> None:
        refused = [result for result in results if not result.accepted]
        if refused:
            full = any(result.code is None for result in refused)
            self._code = Exit.REFUSED if full else Exit.USAGE
        if self._json:
            for index, result in enumerate(results):
                print_json({"index": index} | result.model_dump(mode="json", exclude_none=True))
            return
        if len(results) == 1 and not refused and not quiet:
            print(results[0].id)
        elif len(results) > 1:
            duplicates = sum(1 for result in results if result.duplicate)
            line = f"accepted {len(results) - len(refused)} of {len(results)}"
            (say if quiet else print)(f"{line} ({duplicates} known already)" if duplicates else line)
        for line in sorted({_why_refused(result) for result in refused}):
            say(f"refused: {line}")

    async def _await_all(self, ids: Sequence[str], wait_seconds: float | None) -> None:
        with _progress("waiting", len(ids), hidden=self._json or len(ids) == 1) as progress:
            async for view in self._client.stream(ids, timeout_seconds=wait_seconds):
                self._show_ended(view)
                progress.advance(progress.task_ids[0])

    def _show_ended(self, view: TaskView) -> None:
        if view.state is TaskState.COMPLETED:
            code = Exit.OK
        elif view.state in {TaskState.DEAD, TaskState.EXPIRED, TaskState.CANCELLED, TaskState.SHED}:
            code = Exit.TASK_FAILED
        else:
            code = Exit.TIMED_OUT
        self._code = self._code or code
        if self._json:
            print_json(view)
        elif code is Exit.OK:
            print(as_json(view.result), flush=True)
        elif code is Exit.TASK_FAILED:
            say(f"error: task {view.id} is {view.state}: {why_ended(view)}")
        else:
            say(f"error: task {view.id} is still {view.state}; read it later with `leadsman tasks get {view.id}`")


def _progress(what: str, total: int, *, hidden: bool) -> Progress:
    progress = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=hidden or total <= 1 or not sys.stderr.isatty(),
    )
    progress.add_task(what, total=total)
    return progress


def _keyed(tasks: list[TaskSubmit], key: str | None) -> list[TaskSubmit]:
    if key is None:
        return tasks
    keys = [key] if len(tasks) == 1 else [f"{key}-{index}" for index in range(len(tasks))]
    fields = [task.model_dump(by_alias=True, exclude_unset=True) for task in tasks]
    return [
        task if task.idempotency_key is not None else checked(each | {"idempotency_key": one}, "--key")
        for task, each, one in zip(tasks, fields, keys, strict=True)
    ]


def _from_file(file: Path, defaults: dict[str, Any]) -> Iterator[TaskSubmit]:
    text = _given("-") if str(file) == "-" else _read(file)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        fields = _json(line, where)
        if not isinstance(fields, dict):
            raise InvalidValueError(f'{where} is no object; write {{"payload": ...}}')
        yield checked(defaults | fields, where)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"{file} is not UTF-8 text") from error
    except OSError as error:
        raise InvalidValueError(f"{file} cannot be read: {error.strerror}") from error


def _given(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise InvalidValueError(f"{where} is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidValueError(f"{where} is nested too deep") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _why_refused(result: SubmitResult) -> str:
    if result.code is not None:
        return f"{result.reason or result.code} ({result.code})"
    return f"{result.reason}; try again in {result.retry_after_s} s, or with --wait-for-room"
