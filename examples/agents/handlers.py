"""An agent in three steps, each a queue of its own because each is slow, dear or dangerous in its own way.

browser  reads a page in headless Chromium           -> llm
llm      asks a model for a program about the page   -> code
code     runs what the model wrote, shut in

    leadsman worker handlers:app --limit browser=1
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile

import aiohttp
from pydantic import BaseModel

from leadsman import App, Context, Dead, RateLimited, SyncContext

app = App()

MODEL_URL = os.environ.get("MODEL_URL", "http://127.0.0.1:8900")
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TOKEN_PRICE = 0.000002
MOST_TOKENS = 2000
"""Of a question and its answer."""


class Page(BaseModel):
    url: str


class Text(BaseModel):
    url: str
    text: str


class Program(BaseModel):
    source: str
    text: str


@app.task("browser", isolation="process", timeout_seconds=60)
def read_page(ctx: SyncContext, page: Page) -> dict:
    """In a process of its own: a browser that hangs is killed with all its children, and the worker goes on."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise Dead(f"no browser here; install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as profile:
        flags = [
            "--headless",
            "--disable-gpu",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
        ]
        shown = subprocess.run(
            [browser, *flags, "--dump-dom", page.url], capture_output=True, text=True, check=True
        ).stdout
    text = _visible(shown)
    ctx.follow_up("llm", {"url": page.url, "text": text}, key=f"{ctx.task_id}/llm")
    return {"characters": len(text)}


@app.task("llm")
async def ask_model(ctx: Context, page: Text) -> dict:
    """A paid call: made once over all attempts and only while its run can pay for it, its cost reported.

    A 429 of the provider spends no attempt.
    """

    async def call() -> dict:
        left = ctx.remaining_budget
        if left is not None and not left.allows(tokens=MOST_TOKENS, cost=MOST_TOKENS * TOKEN_PRICE):
            raise Dead(f"too little is left for another question: {left}")
        question = {"messages": [{"role": "user", "content": f"Write a program about this page:\n{page.text}"}]}
        headers = {"Idempotency-Key": ctx.idempotency_key}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{MODEL_URL}/v1/chat/completions", json=question, headers=headers) as reply,
        ):
            if reply.status == 429:
                raise RateLimited("the model is busy", after_s=float(reply.headers.get("Retry-After", 30)))
            reply.raise_for_status()
            answer = await reply.json()
        tokens = answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]
        ctx.report_usage(tokens=tokens, cost=tokens * TOKEN_PRICE)
        return {"source": answer["choices"][0]["message"]["content"], "tokens": tokens}

    answer = await ctx.once("model", call)
    ctx.follow_up("code", {"source": answer["source"], "text": page.text}, key=f"{ctx.task_id}/code")
    return {"tokens": answer["tokens"]}


@app.task("code", isolation="process", timeout_seconds=10, memory_mib=256)
def run_code(ctx: SyncContext, program: Program) -> dict:
    """What a model wrote: another interpreter without our environment, our modules, our files or much of anything.

    The limits of the process bound what it can use, not what it can reach. For code of strangers give the pool a
    sandboxed runtime class (gVisor, Kata) and a NetworkPolicy as well.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", program.source],
            input=program.text,
            capture_output=True,
            text=True,
            env={},
            cwd=folder,
            preexec_fn=_shut_in,
            check=False,
        )
    if done.returncode:
        raise Dead(
            f"the program failed: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}"
        )
    return {"output": done.stdout[:10_000], "run": ctx.run_id}


def _shut_in() -> None:
    for limit, value in (
        (resource.RLIMIT_CPU, 5),
        (resource.RLIMIT_FSIZE, 1 << 20),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))


def _visible(html: str) -> str:
    """Return the text of a page, roughly."""
    text, inside = [], True  # what follows "<body" up to its end is attributes
    for character in html.partition("<body")[2]:
        if character in "<>":
            inside = character == "<"
            text.append(" ")
        elif not inside:
            text.append(character)
    return " ".join("".join(text).split())
