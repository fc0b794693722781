"""The smallest worker: one handler for one capability. Run it with `leadsman worker handlers:app`."""

from leadsman import App, Context

app = App()


@app.task("browser")
async def visit(context: Context) -> dict[str, str]:
    """Return what was found; the value is the task's result."""
    return {"visited": context.payload["url"]}
