"""One trace from the producer's span to the handler's, logs that name it, and the worker's numbers."""

import subprocess
import sys
import urllib.request

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from broker_process import eventually
from leadsman import App, Context, Release
from leadsman.context import TaskFacts
from leadsman.testing import run_task
from leadsman.tracing import attempt_span, current_traceparent, trace_id

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = PARENT.split("-")[1]


@pytest.fixture(scope="module")
def exported():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exported):
    exported.clear()
    return exported.get_finished_spans


def test_an_attempt_is_a_span_under_the_producer_s(spans):
    facts = TaskFacts("t", "agents", "browser", name="visit", tenant="acme", attempt=2, traceparent=PARENT)
    with attempt_span(facts):
        inside = current_traceparent()
    (span,) = spans()
    assert (span.name, span.kind) == ("process browser/visit", trace.SpanKind.CONSUMER)
    assert (trace_id(inside), f"{span.parent.span_id:016x}") == (TRACE, PARENT.split("-")[2])
    assert span.attributes["messaging.message.id"] == "t"
    assert span.attributes["leadsman.attempt"] == 2
    assert span.status.status_code is trace.StatusCode.UNSET


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("no"), trace.StatusCode.ERROR), (Release("later"), trace.StatusCode.UNSET)]
)
def test_a_failure_marks_the_span_and_a_release_does_not(spans, error, status):
    with pytest.raises(type(error)), attempt_span(TaskFacts("t", "agents", "browser")):
        raise error
    (span,) = spans()
    assert span.status.status_code is status
    assert span.parent is None


@pytest.mark.usefixtures("exported")
def test_a_producer_in_a_span_hands_it_on(broker, client, start_worker):
    worker = start_worker(broker.url, capabilities=["spans"], env={"AGENTS_TRACE": "1"})
    with trace.get_tracer("test").start_as_current_span("producing") as span:
        wanted = f"{span.get_span_context().trace_id:032x}"
        submitted = [client.submit("spans", name=name).id for name in ("default", "sync", "isolated")]
    seen = [client.result(task, timeout_seconds=60) for task in submitted]
    assert [trace_id(one) for one in seen] == [wanted] * 3
    assert len(set(seen)) == 3
    ended = eventually(
        lambda: len(found := worker.records("the attempt ended")) == 3 and found, what="three log records"
    )
    assert {record["trace"] for record in ended} == {wanted}


def test_without_opentelemetry_nothing_is_missing():
    probe = """
import sys
sys.modules["opentelemetry"] = None
from leadsman.context import TaskFacts
from leadsman.tracing import attempt_span, current_traceparent
with attempt_span(TaskFacts("t", "n", "c")):
    print(current_traceparent())
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_importing_the_client_does_not_load_it():
    probe = "import sys; from leadsman import SyncClient, App; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("header", [None, "", "no trace", "00-short-b7ad6b7169203331-01"])
def test_a_header_that_is_none_has_no_trace(header):
    assert trace_id(header) is None


def test_a_worker_counts_what_it_does(broker, client, start_worker, gate):
    worker = start_worker(broker.url, capabilities=["echo", "gate", "fail"], slots=3)
    for number in range(3):
        client.result(client.submit("echo", number).id, timeout_seconds=60)
    client.wait(client.submit("fail", {"raise": "Dead"}).id, timeout_seconds=60)
    held = client.submit("gate", gate.path).id
    eventually(lambda: client.stats().workers[0].leases == 1, what="a task at work")

    def samples():
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.health_port}/metrics", timeout=60) as reply:
            assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            families = list(text_string_to_metric_families(reply.read().decode()))
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    # The worker counts after it has heard the answer, in its own time.
    seen = eventually(
        lambda: (
            (found := samples()).get(("leadsman_worker_attempts_total", "done", "echo")) == 3
            and ("leadsman_worker_attempts_total", "fail", "failed") in found
            and ("leadsman_worker_heartbeats_total", "answered") in found
            and found
        ),
        what="four attempts and a heartbeat",
    )
    assert seen["leadsman_worker_slots",] == 3
    assert seen["leadsman_worker_ready",] == 1
    assert seen["leadsman_worker_slots_taken", "gate"] == 1
    assert seen["leadsman_worker_attempts_total", "fail", "failed"] == 1
    assert seen["leadsman_worker_attempt_seconds_count", "echo"] == 3
    assert seen["leadsman_worker_attempt_seconds_bucket", "+Inf", "echo"] == 3
    client.cancel(held)
    eventually(
        lambda: samples().get(("leadsman_worker_handlers_stopped_total", "cancelled")) == 1,
        what="a stopped handler",
    )


def test_follow_ups_come_with_the_ack_and_only_with_it(broker, client, start_worker, journal):
    start_worker(broker.url, capabilities=["chain"])
    payload = {"next": "isolated", "key": "link"}
    task = client.submit("chain", payload, tenant="acme").id
    assert client.result(task, timeout_seconds=60) == "first"
    assert client.get(task).attempts.failures == 1
    last = eventually(lambda: journal.entries("last"), what="the last link")
    middle = next(view for view in client.tasks(tenant="acme") if view.name == "isolated")
    (end,) = client.tasks(tenant="other")
    assert client.result(end.id, timeout_seconds=60) == "last"
    assert (middle.idempotency_key, end.idempotency_key) == ("link", "link-2")
    assert [entry.detail["payload"] for entry in last] == [{"from": middle.id}]
    assert len(client.tasks()) == 3


def test_too_many_follow_ups_fail_the_attempt(broker, client, start_worker):
    start_worker(broker.url, capabilities=["chain"])
    view = client.wait(client.submit("chain", name="too-many", max_attempts=1).id, timeout_seconds=60)
    assert "at most 100 follow-ups" in view.error.message
    assert len(client.tasks()) == 1


def test_a_handler_under_test_shows_its_follow_ups():
    app = App()

    @app.task("plan")
    async def plan(ctx: Context):
        ctx.follow_up("act", {"step": 1})
        if ctx.payload == "fail":
            raise ValueError

    (task,) = run_task(app, "plan", tenant="acme", traceparent=PARENT).follow_ups
    assert (task.capability, task.payload, task.tenant) == ("act", {"step": 1}, "acme")
    assert task.traceparent is not None
    assert run_task(app, "plan", "fail").follow_ups == []
