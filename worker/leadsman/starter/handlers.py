"""What the workers of my-agent do: one function for each kind of step."""

from pydantic import BaseModel

from leadsman import App, Context

app = App()


class Step(BaseModel):
    """What a producer sends. A payload that does not fit never runs."""

    items: list[str]


@app.task("my-agent")
async def work(ctx: Context, step: Step) -> dict[str, int]:
    """Work through the items; after a crash another worker goes on behind the last checkpoint."""
    done: dict[str, int] = ctx.resume or {}
    for item in step.items:
        if item in done:
            continue
        done[item] = await handle(item)
        await ctx.checkpoint(done)
    return done


async def handle(item: str) -> int:
    """Do what takes the time: ask a model, open a page, call a tool. Here a word is measured."""
    return len(item)
