"""Handlers whose effects must not happen twice."""

import asyncio
import os
import time
from pathlib import Path

from leadsman import App, Context, Release, SyncContext
from worker_process.controls import LOOK_SECONDS, journal, note, pass_gate
from worker_process.journal import Gate

app = App()


def charge(ctx):
    note(ctx, "charged", ctx.idempotency_key)
    return {"receipt": ctx.attempt}


@app.task("once")
async def pay_once(ctx: Context):
    """Pays in two ways at once, then waits at a gate in the first attempt and dies there."""

    async def slowly():
        await asyncio.sleep(0)
        return charge(ctx)

    first, same = await asyncio.gather(ctx.once("card", slowly), ctx.once("card", slowly))
    assert first == same
    if ctx.attempt == 1:
        note(ctx, "holding")
        await pass_gate(ctx.payload)
    return first


@app.task("once", name="sync")
def pay_once_sync(ctx: SyncContext):
    receipt = ctx.once("card", lambda: charge(ctx))
    if ctx.attempt == 1:
        raise ValueError("after the effect")
    return receipt


@app.task("once", name="isolated", isolation="process")
async def pay_once_isolated(ctx: Context):
    receipt = await ctx.once("card", lambda: charge(ctx))
    if ctx.attempt == 1:
        os._exit(1)
    return receipt


@app.task("once", name="cancelled")
async def pay_and_be_cancelled(ctx: Context):
    """Is told to stop while the record of its effect is under way."""
    paying = asyncio.ensure_future(ctx.once("card", lambda: charge(ctx)))
    if ctx.attempt > 1 or len(journal.entries("charged", ctx.task_id)):
        return await paying
    while not journal.entries("charged", ctx.task_id):  # noqa: ASYNC110  a file, not an event of this loop
        await asyncio.sleep(0)
    paying.cancel()
    raise Release("stopped in the middle")


@app.task("once", name="bad")
async def keep_too_much(ctx: Context):
    said = []
    for key, value in (("a key", 1), ("big", "x" * 20_000), ("object", object())):
        try:
            await ctx.once(key, lambda value=value: value)
        except ValueError as error:
            said.append(str(error))
    return said


def take_effect(ctx):
    """Enter the task into a sink that keeps one entry a key; the journal counts how often this ran."""
    note(ctx, "effect", ctx.delivery)
    (Path(os.environ["AGENTS_SINK"]) / ctx.idempotency_key).touch()
    return ctx.delivery


@app.task("chaos")
async def chaos(ctx: Context):
    note(ctx, "ran", ctx.delivery)
    await asyncio.sleep(ctx.payload)
    first = await ctx.once("effect", lambda: take_effect(ctx))
    note(ctx, "recorded", ctx.delivery)
    await asyncio.sleep(ctx.payload)
    return {"delivery": ctx.delivery, "effect": first}


@app.task("chaos", name="sync")
def chaos_sync(ctx: SyncContext):
    note(ctx, "ran", ctx.delivery)
    time.sleep(ctx.payload)
    first = ctx.once("effect", lambda: take_effect(ctx))
    note(ctx, "recorded", ctx.delivery)
    time.sleep(ctx.payload)
    return {"delivery": ctx.delivery, "effect": first}


@app.task("chaos", name="isolated", isolation="process")
async def chaos_isolated(ctx: Context):
    note(ctx, "ran", ctx.delivery)
    await asyncio.sleep(ctx.payload)
    first = await ctx.once("effect", lambda: take_effect(ctx))
    note(ctx, "recorded", ctx.delivery)
    return {"delivery": ctx.delivery, "effect": first}


@app.task("once", name="late")
async def pay_late(ctx: Context):
    note(ctx, "started")
    await pass_gate(ctx.payload)
    return await ctx.once("card", lambda: charge(ctx))


@app.task("once", name="late-sync")
def pay_late_sync(ctx: SyncContext):
    note(ctx, "started")
    while not Gate(Path(ctx.payload)).is_open:
        time.sleep(LOOK_SECONDS)
    return ctx.once("card", lambda: charge(ctx))
