"""The example agent: a real browser, a stand-in model, a program shut in; one run from a page to its output."""

import http.server
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from cluster import debian
from cluster.errors import UnavailableError
from leadsman import RemainingBudget, TaskState
from leadsman.testing import run_task
from leadsman.worker.loading import load_app

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "agents"
PAGE = "<html><head><title>t</title></head><body class='x'><h1>Sounding</h1><p>by the leadsman</p></body></html>"


@pytest.fixture(scope="module")
def example():
    """The example's modules, loaded as `leadsman worker` loads them."""
    sys.path.insert(0, str(FOLDER))
    try:
        import handlers
        import model_server

        yield handlers, model_server
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("handlers", "model_server"):
            sys.modules.pop(name, None)


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def model(example):
    _, model_server = example
    server = model_server.serve(0)
    model_server.Model.calls = model_server.Model.paid = 0
    yield serve(server), model_server.Model
    server.shutdown()
    server.server_close()


@pytest.fixture
def page():
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    yield serve(server) + "/page.html"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, from the distribution where it can be had."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    if not any(map(debian.find_program, names)):
        try:
            debian.install({names[0]: names[0]})
        except UnavailableError as reason:
            pytest.skip(f"no headless Chromium here: {reason}")


@pytest.mark.usefixtures("browser")
def test_a_run_goes_from_a_page_to_what_the_model_s_program_says(
    broker, client, start_worker, environment, model, page
):
    url, served = model
    start_worker(
        broker.url,
        capabilities=["browser", "llm", "code"],
        slots=3,
        target="handlers:app",
        env={"PYTHONPATH": str(FOLDER), "MODEL_URL": url},
    )
    done = subprocess.run(
        [sys.executable, FOLDER / "produce.py", page],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 2, (done.stdout, client.tasks())
    first, output = done.stdout.strip().splitlines()
    assert "is completed, for " in first
    assert output == "4 Sounding"
    (asked,) = client.tasks(capability="llm")
    assert (asked.attempts.releases, asked.attempts.failures) == (1, 0)  # the model was busy at first
    assert (served.calls, served.paid) == (2, 1)
    assert [view.state for view in client.tasks()] == [TaskState.COMPLETED] * 3


def test_the_model_s_price_is_reported_and_a_paid_answer_is_not_paid_again(example, model, monkeypatch):
    handlers, _ = example
    monkeypatch.setattr(handlers, "MODEL_URL", model[0])
    page = {"url": "u", "text": "some words"}
    assert run_task(handlers.app, "llm", page).after_seconds == 1.0
    asked = run_task(handlers.app, "llm", page)
    assert (asked.kind, asked.follow_ups[0].capability, asked.tokens) == ("done", "code", asked.result["tokens"])
    again = run_task(handlers.app, "llm", page, once=asked.once)
    assert (again.result, again.tokens, model[1].paid) == (asked.result, 0, 1)


def test_a_question_that_the_run_cannot_pay_for_is_not_asked(example, model, monkeypatch):
    handlers, _ = example
    monkeypatch.setattr(handlers, "MODEL_URL", model[0])
    outcome = run_task(
        handlers.app, "llm", {"url": "u", "text": "t"}, budget=RemainingBudget(cost=Decimal("0.001"))
    )
    assert (outcome.error_type, model[1].calls) == ("Dead", 0)
    assert "too little is left" in outcome.error_message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("while True: pass", "-"),
        ("open('/tmp/x', 'w').write('x' * (2 << 20))", "File too large"),
        ("import pydantic", "No module named 'pydantic'"),
        ("raise SystemExit('gave up')", "gave up"),
    ],
)
def test_a_program_is_shut_in(example, source, words):
    handlers, _ = example
    outcome = run_task(handlers.app, "code", {"source": source, "text": ""})
    assert (outcome.kind, outcome.error_type, outcome.retry) == ("failed", "Dead", False)
    assert words in outcome.error_message


def test_a_program_sees_nothing_of_our_environment(example, monkeypatch):
    handlers, _ = example
    monkeypatch.setenv("SECRET", "pineapple")
    program = {"source": "import os; print(sorted(os.environ))", "text": ""}
    assert "SECRET" not in run_task(handlers.app, "code", program).result["output"]


def test_the_example_loads_as_a_worker_loads_it(monkeypatch):
    monkeypatch.chdir(FOLDER)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "handlers", raising=False)
    assert load_app("handlers:app").capabilities == ("browser", "llm", "code")
