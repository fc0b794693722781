"""Handlers that tests control: they journal what they do and wait at gates."""

import asyncio
import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel

from leadsman import App, Context, Dead, RateLimited, Release, Retry, SyncContext
from leadsman.tracing import current_traceparent
from worker_process import effects
from worker_process.controls import LOOK_SECONDS, journal, note, pass_gate
from worker_process.journal import Gate

if os.environ.get("AGENTS_TRACE"):
    trace.set_tracer_provider(TracerProvider())

app = App()
app.include(effects.app)


@app.task("echo")
async def echo(ctx: Context):
    note(ctx, "ran")
    return ctx.payload


@app.task("echo", name="sync")
def echo_sync(ctx: SyncContext):
    note(ctx, "ran")
    return ctx.payload


@app.task("echo", name="spend")
async def spend(ctx: Context):
    for tokens, cost in ctx.payload["calls"]:
        ctx.report_usage(tokens=tokens, cost=cost)
    note(ctx, "spent")
    await pass_gate(ctx.payload["gate"])
    if ctx.attempt == 1 and ctx.payload.get("fail"):
        raise ValueError("the first attempt fails")


@app.task("echo", name="spend-isolated", isolation="process")
def spend_isolated(ctx: SyncContext):
    ctx.report_usage(tokens=3, cost="0.25")


def shown(budget):
    return None if budget is None else [budget.tokens, budget.cost and str(budget.cost)]


@app.task("paid")
async def watch_the_budget(ctx: Context):
    return await asyncio.to_thread(watch, ctx)


@app.task("paid", name="sync")
@app.task("paid", name="isolated", isolation="process")
def watch(ctx):
    """Says what it may still use: before it uses some, after that, and when another attempt has used some."""
    seen = [shown(ctx.remaining_budget)]
    ctx.report_usage(tokens=ctx.payload["tokens"], cost="0.25")
    seen.append(shown(ctx.remaining_budget))
    note(ctx, "used")
    while shown(ctx.remaining_budget) == seen[-1]:
        time.sleep(LOOK_SECONDS)
    return [*seen, shown(ctx.remaining_budget)]


@app.task("paid", name="spend")
async def use_of_the_budget(ctx: Context):
    ctx.report_usage(tokens=ctx.payload["tokens"], cost="1")


@app.task("echo", name="facts")
async def facts(ctx: Context):
    ctx.log.info("facts were asked for", extra_word="pineapple")
    return {
        "id": ctx.task_id,
        "key": ctx.idempotency_key,
        "attempt": ctx.attempt,
        "tenant": ctx.tenant,
        "namespace": ctx.namespace,
        "capability": ctx.capability,
        "name": ctx.name,
        "resume": ctx.resume,
        "cancelled": ctx.cancelled,
        "budget": shown(ctx.remaining_budget),
    }


@app.task("echo", name="orphan")
def leave_an_orphan(_ctx: SyncContext):
    """Start a process whose parent ends first, as a browser does, and one whose exit code matters."""
    subprocess.run(["sh", "-c", "(sleep 0.2 &)"], check=True)
    return subprocess.run(["sh", "-c", "exit 7"], check=False).returncode


@app.task("impatient")
@app.task("gate")
async def gate(ctx: Context):
    note(ctx, "started")
    try:
        await pass_gate(ctx.payload)
    except asyncio.CancelledError:
        note(ctx, "cancelled", ctx.cancelled)
        raise
    note(ctx, "passed")
    return "passed"


@app.task("gate", name="sync")
def gate_sync(ctx: SyncContext):
    """Sees that it should stop, and stops."""
    note(ctx, "started")
    while not Gate(Path(ctx.payload)).is_open:
        if ctx.cancelled:
            note(ctx, "cancelled")
            ctx.raise_if_cancelled()
        time.sleep(LOOK_SECONDS)
    return "passed"


@app.task("gate", name="stubborn")
def gate_stubborn(ctx: SyncContext):
    """Does not look whether it should stop."""
    note(ctx, "started")
    told = False
    while not Gate(Path(ctx.payload)).is_open:
        if ctx.cancelled and not told:
            note(ctx, "told")
            told = True
        time.sleep(LOOK_SECONDS)
    note(ctx, "passed")
    return "passed"


@app.task("steps")
async def steps(ctx: Context):
    """Checkpoints after each of `steps`, then waits at `gate` after the one numbered `hold_after`."""
    start = ctx.resume["next"] if ctx.resume else 0
    note(ctx, "resumed", start)
    for number in range(start, ctx.payload["steps"]):
        note(ctx, "step", number)
        await ctx.checkpoint({"next": number + 1})
        if number + 1 == ctx.payload.get("hold_after"):
            note(ctx, "holding")
            await pass_gate(ctx.payload["gate"])
    return {"steps": ctx.payload["steps"]}


@app.task("steps", name="sync")
def steps_sync(ctx: SyncContext):
    start = ctx.resume["next"] if ctx.resume else 0
    note(ctx, "resumed", start)
    for number in range(start, ctx.payload["steps"]):
        note(ctx, "step", number)
        ctx.checkpoint({"next": number + 1})
        if number + 1 == ctx.payload.get("hold_after"):
            note(ctx, "holding")
            while not Gate(Path(ctx.payload["gate"])).is_open:
                ctx.raise_if_cancelled()
                time.sleep(LOOK_SECONDS)
    return {"steps": ctx.payload["steps"]}


@app.task("steps", name="queued-then-failed")
async def queued_then_failed(ctx: Context):
    """Fails while its last checkpoint is still on its way."""
    note(ctx, "resumed", ctx.resume)
    if ctx.resume == "second":
        return "resumed from the last"
    await ctx.checkpoint("first")
    note(ctx, "holding")
    await pass_gate(ctx.payload)
    pending = asyncio.ensure_future(ctx.checkpoint("second"))
    await asyncio.sleep(0)
    pending.cancel()
    raise ValueError("gave up")


@app.task("steps", name="save-on-cancel")
async def save_on_cancel(ctx: Context):
    note(ctx, "resumed", ctx.resume)
    if ctx.resume:
        return ctx.resume
    note(ctx, "holding")
    try:
        await pass_gate(ctx.payload)
    finally:
        if ctx.cancelled:
            await ctx.checkpoint({"saved": "at the last moment"})
    return "passed"


@app.task("steps", name="bad-checkpoints")
async def bad_checkpoints(ctx: Context):
    said = []
    for state in ({1, 2}, "x" * 70_000):
        with contextlib.suppress(ValueError):
            await ctx.checkpoint(state)
            said.append("kept")
            continue
        said.append("refused")
    return said


@app.task("fail")
async def fail(ctx: Context):
    note(ctx, "ran")
    kind, after = ctx.payload["raise"], ctx.payload.get("after")
    if ctx.attempt > ctx.payload.get("times", 99) or len(journal.entries("ran", ctx.task_id)) > 98:
        return f"recovered at attempt {ctx.attempt}"
    match kind:
        case "Retry":
            raise Retry("later", after_s=after)
        case "Dead":
            raise Dead("hopeless")
        case "Release":
            if len(journal.entries("ran", ctx.task_id)) > 2:
                return f"done at attempt {ctx.attempt}"
            raise Release("not now", after_s=after)
        case "SystemExit":
            raise SystemExit(3)
        case "CancelledError":
            raise asyncio.CancelledError
    raise ValueError("x" * 10_000)


@app.task("fail", name="bad-result")
async def bad_result(ctx: Context):
    note(ctx, "ran")
    return {"not": {"json": object()}} if ctx.payload == "object" else "x" * 70_000


@app.task("stuck")
async def block_behind_a_gate(ctx: Context):
    """Waits at one gate, then blocks the event loop until another opens."""
    note(ctx, "started")
    await pass_gate(ctx.payload["gate"])
    note(ctx, "blocking")
    block_until_open(ctx.payload["end"])
    return "blocked"


@app.task("block")
async def block(ctx: Context):
    """Blocks the event loop, as an ordinary mistake does."""
    note(ctx, "started")
    time.sleep(ctx.payload)  # noqa: ASYNC251  the mistake under test
    note(ctx, "ended")
    return "blocked"


def block_until_open(gate):
    while not Gate(Path(gate)).is_open:
        time.sleep(LOOK_SECONDS)


@app.task("gate", name="blocking")
@app.task("tight")
async def block_until(ctx: Context):
    """Blocks the event loop until its gate opens."""
    note(ctx, "started")
    block_until_open(ctx.payload)
    return "blocked"


@app.task("block", name="cpu")
def burn(ctx: SyncContext):
    note(ctx, "started")
    end = time.monotonic() + ctx.payload
    count = 0
    while time.monotonic() < end:
        count += sum(range(1000))
    return "burnt"


@app.task("isolated", isolation="process")
def isolated_facts(ctx: SyncContext):
    note(ctx, "ran")
    return {"payload": ctx.payload, "pid": os.getpid(), "tenant": ctx.tenant, "attempt": ctx.attempt}


@app.task("isolated", name="async", isolation="process")
async def isolated_async(ctx: Context):
    await asyncio.sleep(0)
    ctx.log.info("said in a process of its own")
    return {"payload": ctx.payload, "pid": os.getpid(), "tenant": ctx.tenant, "attempt": ctx.attempt}


@app.task("isolated", name="steps", isolation="process")
async def isolated_steps(ctx: Context):
    note(ctx, "resumed", ctx.resume)
    if ctx.resume == "second":
        return "resumed"
    await ctx.checkpoint("first")
    await ctx.checkpoint("second")
    os._exit(9)


@app.task("isolated", name="ends", isolation="process", memory_mib=200)
def isolated_end(ctx: SyncContext):
    """Ends its process in the way that the payload names."""
    note(ctx, "ran")
    match ctx.payload:
        case "exit":
            os._exit(3)
        case "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "memory":
            return len(bytearray(1 << 30))
        case "raise":
            raise Dead("hopeless")
        case "closed":
            os.closerange(3, 256)
    return None


@app.task("isolated", name="slow", isolation="process", timeout_seconds=3.0)
@app.task("isolated", name="stubborn", isolation="process")
def isolated_family(ctx: SyncContext):
    """Starts processes that must not outlive it, one in a session of its own, and does not end."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    family = [subprocess.Popen(sleep, start_new_session=alone).pid for alone in (False, True)]
    note(ctx, "started", [os.getpid(), *family])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(LOOK_SECONDS)


@app.task("isolated", name="save-on-cancel", isolation="process")
async def isolated_save(ctx: Context):
    note(ctx, "started", ctx.resume)
    if ctx.resume:
        return ctx.resume
    try:
        await asyncio.Event().wait()
    finally:
        await ctx.checkpoint("saved")


@app.task("greedy", isolation="process")
def hold_the_lock(ctx: SyncContext):
    """Holds the interpreter lock for as many seconds as the payload says, whatever the machine's speed."""
    note(ctx, "started")
    length, took = 20, 0.0  # each letter more doubles the time
    while took < ctx.payload:
        length += max(1, int(math.log2(ctx.payload / took))) if took else 0
        started = time.monotonic()
        re.match(r"(a*)*b", "a" * length)
        took = time.monotonic() - started
    return took


class Number(BaseModel):
    n: int


@app.task("typed", name="typed")
async def typed(ctx: Context, number: Number):
    note(ctx, "ran")
    return number.n + 1


@app.task("typed", name="typed-sync")
def typed_sync(ctx: SyncContext, number: Number):
    note(ctx, "ran")
    return number.n + 1


@app.task("typed", name="typed-isolated", isolation="process")
def typed_isolated(ctx: SyncContext, number: Number):
    note(ctx, "ran")
    return number.n + 1


@app.task("typed", name="rate-limited")
async def rate_limited(ctx: Context):
    note(ctx, "ran")
    if len(journal.entries("ran", ctx.task_id)) == 1:
        raise RateLimited("slow down", after_s=0.1)
    return ctx.attempt


@app.task("gated", name="steady")
async def steady(ctx: Context):
    for _ in range(40):
        ctx.progress()
        await asyncio.sleep(0.1)
    return "done"


@app.task("gated", name="steady-isolated", isolation="process")
def steady_isolated(ctx: SyncContext):
    for _ in range(40):
        ctx.progress()
        time.sleep(0.1)
    return "done"


@app.task("gated", name="hung")
async def hung(ctx: Context):
    note(ctx, "started")
    await asyncio.Event().wait()


@app.task("spans")
async def say_span(_ctx: Context):
    return current_traceparent()


@app.task("spans", name="sync")
def say_span_sync(_ctx: SyncContext):
    return current_traceparent()


@app.task("spans", name="isolated", isolation="process")
def say_span_isolated(_ctx: SyncContext):
    return current_traceparent()


@app.task("chain")
async def first_link(ctx: Context):
    ctx.follow_up("chain", ctx.payload, name=ctx.payload["next"], key=ctx.payload["key"])
    if ctx.attempt == 1:
        raise ValueError("after the follow-up was named, before the ack")
    return "first"


@app.task("chain", name="isolated", isolation="process")
def isolated_link(ctx: SyncContext):
    ctx.follow_up("chain", {"from": ctx.task_id}, name="last", key=ctx.payload["key"] + "-2", tenant="other")
    return "isolated"


@app.task("chain", name="last")
async def last_link(ctx: Context):
    note(ctx, "last", {"tenant": ctx.tenant, "trace": ctx.traceparent, "payload": ctx.payload})
    return "last"


@app.task("chain", name="too-many")
async def too_many_links(ctx: Context):
    for _ in range(101):
        ctx.follow_up("chain", name="last")
