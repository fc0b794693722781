"""The producer's client against a real broker, async and sync, over networks and brokers that fail."""

import asyncio
import json
import multiprocessing
import subprocess
import sys
import threading
import time

import pytest

from broker_process import eventually
from leadsman import (
    BrokerUnreachableError,
    Client,
    SyncClient,
    TaskFailedError,
    TaskState,
    TaskSubmit,
    WaitTimeoutError,
)
from leadsman.errors import (
    ConfigurationError,
    ForbiddenError,
    InvalidRequestError,
    InvalidValueError,
    NotFoundError,
    UnauthenticatedError,
)

TOKENS = """
tokens:
  - token: producer-token-of-the-tests
    name: test
    roles: [producer]
    namespaces: [default]
"""

WORKER_TOKENS = """
  - token: worker-token-of-the-tests
    name: workers
    roles: [worker]
    namespaces: [default, other]
"""


async def test_an_async_program_submits_waits_and_reads(broker, start_worker):
    start_worker(broker.url, capabilities=["echo"])
    async with Client(broker.url) as client:
        submitted = await client.submit("echo", {"n": 1}, task_class="interactive", tenant="acme", priority=7)
        assert submitted.accepted
        assert await client.result(submitted.id, timeout_seconds=60) == {"n": 1}
        view = await client.get(submitted.id)
        assert (view.state, view.tenant, view.priority) == (TaskState.COMPLETED, "acme", 7)
        results = await asyncio.gather(*(client.submit("echo", n) for n in range(20)))
        assert [await client.result(one.id, timeout_seconds=60) for one in results] == list(range(20))


def test_any_number_of_tasks_is_submitted_in_order(client):
    answers = client.submit_many(TaskSubmit(capability="echo", payload=n) for n in range(2500))
    assert len(answers) == 2500
    assert all(answer.accepted for answer in answers)
    assert len({answer.id for answer in answers}) == 2500
    assert [answer.id for answer in answers] == sorted(answer.id for answer in answers)
    assert client.submit_many([]) == []


def test_the_same_key_is_the_same_task(client):
    first = client.submit("echo", 1, key="order-7")
    again = client.submit("echo", 1, key="order-7")
    assert (again.id, again.duplicate) == (first.id, True)
    other = client.submit("echo", 2, key="order-7")
    assert (other.accepted, other.code) == (False, "idempotency_mismatch")


def test_a_lost_reply_never_doubles_a_task(broker, proxy, start_worker, journal):
    with SyncClient(proxy.url) as client:
        proxy.cut("/tasks", "reply", times=2)
        answers = client.submit_many([TaskSubmit(capability="echo", payload=n) for n in range(50)])
    assert proxy.cuts_done("/tasks", "reply") == 2
    assert {answer.duplicate for answer in answers} == {None}
    start_worker(broker.url, capabilities=["echo"], slots=8)
    with SyncClient(broker.url) as client:
        for answer in answers:
            client.wait(answer.id, timeout_seconds=60)
        assert client.submit("echo", "last").id
        eventually(lambda: len(journal.entries("ran")) == 51, what="every task run")


def test_a_refusal_is_an_answer(client):
    answers = client.submit_many([TaskSubmit(capability="small", payload=n) for n in range(5)])
    assert [answer.accepted for answer in answers] == [True, True, True, False, False]
    refused = client.submit("small")
    assert refused.model_dump(exclude_none=True) == {
        "accepted": False,
        "reason": "pool saturated",
        "retry_after_s": 1,
    }


def test_waiting_for_room_ends_when_there_is_room(client):
    first, *_ = client.submit_many([TaskSubmit(capability="small", payload=n) for n in range(3)])
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(client.submit("small", "patient", wait_for_room_seconds=60))
    )
    waiting.start()
    client.cancel(first.id)
    waiting.join(60)
    assert answers[0].accepted


def test_waiting_for_room_is_bounded(client):
    client.submit_many([TaskSubmit(capability="small", payload=n) for n in range(3)])
    assert not client.submit("small", wait_for_room_seconds=0.2).accepted


def test_an_unknown_capability_is_refused_by_name(client):
    answer = client.submit("brwser")
    assert (answer.accepted, answer.code) == (False, "unknown_capability")
    assert "brwser" in answer.reason


def test_a_task_that_is_not_there_is_not_found(client):
    for call in (client.get, client.cancel, client.wait):
        with pytest.raises(NotFoundError) as caught:
            call("no-such-task")
        assert caught.value.code == "unknown_task"


def test_a_task_without_a_result_says_why(broker, client, start_worker):
    start_worker(broker.url, capabilities=["fail"])
    task = client.submit("fail", {"raise": "Dead"}).id
    with pytest.raises(TaskFailedError, match=r"is dead: .*Dead: hopeless") as caught:
        client.result(task, timeout_seconds=60)
    assert caught.value.view.attempts.failures == 1
    waiting = client.submit("echo", 1).id
    client.cancel(waiting)
    with pytest.raises(TaskFailedError, match="is cancelled"):
        client.result(waiting)


def test_waiting_is_bounded_and_the_task_goes_on(client):
    task = client.submit("echo").id
    with pytest.raises(WaitTimeoutError, match=r"is still ready after 0.2 s") as caught:
        client.wait(task, timeout_seconds=0.2)
    assert caught.value.view.id == task


def test_dead_tasks_are_listed_and_redriven(broker, client, start_worker):
    worker = start_worker(broker.url, capabilities=["fail"], slots=8)
    tasks = [client.submit("fail", {"raise": "ValueError"}, max_attempts=1).id for _ in range(5)]
    for task in tasks:
        client.wait(task, timeout_seconds=60)
    worker.kill()
    assert [view.id for view in client.dead("fail")] == tasks
    assert [view.id for view in client.dead("fail", limit=2)] == tasks[:2]
    answers = client.redrive("fail", [tasks[3], "no-such-task", tasks[0]])
    assert [(answer.id, answer.redriven, answer.code) for answer in answers] == [
        (tasks[3], True, None),
        ("no-such-task", False, "unknown_task"),
        (tasks[0], True, None),
    ]
    assert client.get(tasks[0]).state is TaskState.READY
    assert len(client.dead("fail")) == 3


def test_stats_show_the_queues_and_workers_of_the_namespace(broker, namespace, client, start_worker):
    worker = start_worker(broker.url, capabilities=["gate"], slots=3)
    client.submit("echo")
    stats = client.stats()
    assert {queue.name: queue.ready for queue in stats.capabilities}["echo"] == 1
    assert {queue.namespace for queue in stats.capabilities} == {namespace}
    assert [(one.pod_uid, one.slots) for one in stats.workers] == [(worker.pod_uid, 3)]


def test_stats_of_a_namespace_need_no_operator_and_show_nothing_of_another(start_broker, start_worker, tmp_path):
    tokens, capabilities = tmp_path / "tokens.yaml", tmp_path / "capabilities.json"
    tokens.write_text(TOKENS + WORKER_TOKENS)
    capabilities.write_text(json.dumps({"default": [{"name": "echo"}], "other": [{"name": "echo"}]}))
    broker = start_broker(
        auth="static", args=["--tokens-file", str(tokens), "--capabilities-file", str(capabilities)]
    )
    for namespace, slots in (("default", 2), ("other", 3)):
        env = {"LEADSMAN_TOKEN": "worker-token-of-the-tests", "LEADSMAN_NAMESPACE": namespace}
        start_worker(broker.url, capabilities=["echo"], slots=slots, env=env)
    with SyncClient(broker.url, token="producer-token-of-the-tests") as client:
        stats = client.stats()
    assert [(queue.namespace, queue.name) for queue in stats.capabilities] == [("default", "echo")]
    assert [(worker.namespace, worker.slots) for worker in stats.workers] == [("default", 2)]


def test_threads_share_a_client(broker, client, start_worker):
    start_worker(broker.url, capabilities=["echo"], slots=8)
    found = {}

    def run(number):
        found[number] = client.result(client.submit("echo", number).id, timeout_seconds=60)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number for number in range(16)}


def _submit_in_child(client, queue):
    queue.put(client.submit("echo", "from the child").accepted)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_uses_the_client_it_inherited(client):
    assert client.submit("echo", "from the parent").accepted
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_submit_in_child, args=(client, queue))
    child.start()
    assert queue.get(timeout=60)
    child.join(30)
    assert child.exitcode == 0
    assert client.submit("echo", "again").accepted


def test_a_program_that_forgets_to_close_ends_without_complaint(broker):
    program = f"from leadsman import SyncClient; print(SyncClient({broker.url!r}).submit('echo').accepted)"
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_closed_client_opens_again(client):
    client.submit("echo")
    client.close()
    assert client.submit("echo").accepted


@pytest.mark.usefixtures("own_broker")
def test_a_broker_that_restarts_meanwhile_is_waited_for(broker):
    with SyncClient(broker.url, unreachable_seconds=60) as client:
        client.submit("echo")
        broker.kill()
        answers = []
        submitting = threading.Thread(target=lambda: answers.append(client.submit("echo", "patient")))
        submitting.start()
        broker.start()
        submitting.join(60)
        assert answers[0].accepted


def test_a_broker_that_is_not_there_is_told_with_its_address():
    with (
        SyncClient("http://127.0.0.1:9", unreachable_seconds=0) as client,
        pytest.raises(BrokerUnreachableError) as caught,
    ):
        client.submit("echo")
    assert str(caught.value).startswith("cannot reach the broker at http://127.0.0.1:9: connection refused")
    assert "LEADSMAN_BROKER_URL" in str(caught.value)
    assert caught.value.url == "http://127.0.0.1:9"


def test_an_error_in_the_middle_says_what_is_left_and_that_can_be_sent_again(broker, proxy, client):
    tasks = [TaskSubmit(capability="echo", payload=n) for n in range(1500)]
    with SyncClient(proxy.url, unreachable_seconds=0) as flaky:
        proxy.cut("/tasks", "reply", times=1)
        with pytest.raises(BrokerUnreachableError) as caught:
            flaky.submit_many(tasks)
    submission = caught.value.submission
    assert (len(submission.results), len(submission.remaining)) == (0, 1500)
    answers = client.submit_many(submission.remaining)
    assert len({answer.id for answer in answers}) == 1500
    assert sum(1 for answer in answers if answer.duplicate) == 1000
    ready = {queue.name: queue.ready for queue in client.stats().capabilities}["echo"]
    assert ready == 1500
    assert broker.alive


def test_what_is_no_broker_is_told(broker):
    with (
        SyncClient(broker.ops_url, unreachable_seconds=0) as client,
        pytest.raises(BrokerUnreachableError, match="is no Leadsman broker"),
    ):
        client.get("x")


def test_bad_payloads_are_refused_here_or_there_and_nothing_else_is_disturbed(client):
    for payload in ({"a": {1, 2}}, float("nan"), "\ud800", "a\x00b", [[]] * 3 + [object()]):
        with pytest.raises(InvalidValueError):
            client.submit("echo", payload)
    large = client.submit("echo", "x" * 300_000)
    assert (large.accepted, large.code) == (False, "payload_too_large")
    with pytest.raises(InvalidRequestError, match="64-bit float") as caught:
        client.submit("echo", 10**400)
    assert caught.value.code == "invalid_json"
    assert client.submit("echo", "fine").accepted


def test_a_static_token_is_sent_and_a_rotated_one_is_read_again(start_broker, tmp_path):
    tokens, capabilities = tmp_path / "tokens.yaml", tmp_path / "capabilities.json"
    tokens.write_text(TOKENS)
    capabilities.write_text(json.dumps({"default": [{"name": "echo"}]}))
    broker = start_broker(
        auth="static", args=["--tokens-file", str(tokens), "--capabilities-file", str(capabilities)]
    )
    with SyncClient(broker.url) as client, pytest.raises(UnauthenticatedError, match="check the token"):
        client.submit("echo")
    with SyncClient(broker.url, token="producer-token-of-the-tests") as client:
        assert client.submit("echo").accepted
    with (
        SyncClient(broker.url, token="producer-token-of-the-tests", namespace="other") as client,
        pytest.raises(ForbiddenError, match="LEADSMAN_NAMESPACE or --namespace"),
    ):
        client.submit("echo")
    file = tmp_path / "token"
    file.write_text("old")
    with SyncClient(broker.url, token_file=file) as client:
        with pytest.raises(UnauthenticatedError):
            client.submit("echo")
        file.write_text("producer-token-of-the-tests\n")
        assert client.submit("echo").accepted


def test_a_wrong_setting_is_told_before_the_first_call():
    with pytest.raises(ConfigurationError):
        SyncClient("broker:8080")


async def test_a_cancelled_wait_leaves_the_client_usable(broker):
    async with Client(broker.url) as client:
        task = (await client.submit("echo")).id
        waiting = asyncio.create_task(client.wait(task))
        await asyncio.sleep(0.05)  # let it park at the broker
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await client.get(task)).state is TaskState.READY


def test_a_delayed_task_and_one_with_a_ttl(client):
    before = time.time()
    view = client.get(client.submit("echo", delay_seconds=3600).id)
    assert view.state is TaskState.DELAYED
    assert view.due_at >= before + 3590
    expired = client.wait(client.submit("echo", ttl_seconds=0.05).id, timeout_seconds=60)
    assert expired.state is TaskState.EXPIRED


def test_results_come_as_tasks_end_and_a_long_one_holds_up_nobody(broker, client, start_worker, gate):
    start_worker(broker.url, capabilities=["gate", "echo"], slots=4)
    held = [client.submit("gate", gate.path).id for _ in range(3)]
    quick = [client.submit("echo", number).id for number in range(50)]
    seen = []
    for view in client.stream([*held, *quick, quick[0]], timeout_seconds=60):
        seen.append(view.id)
        if len(seen) == len(quick):
            assert set(seen) == set(quick)
            gate.open()
    assert sorted(seen) == sorted([*held, *quick])


def test_a_stream_that_is_left_early_and_one_whose_time_is_over(broker, client, start_worker, gate):
    start_worker(broker.url, capabilities=["gate", "echo"], slots=2)
    done, held = client.submit("echo", 1).id, client.submit("gate", gate.path).id
    assert next(iter(client.stream([held, done]))).id == done
    views = {view.id: view.state for view in client.stream([held, done], timeout_seconds=0.2)}
    assert views[done] is TaskState.COMPLETED
    assert views[held] in {TaskState.READY, TaskState.LEASED}
    with pytest.raises(NotFoundError):
        list(client.stream(["0000000000000000ffff"]))


async def test_the_asynchronous_stream(broker, client):
    ids = [client.submit("echo").id for _ in range(3)]
    for task in ids:
        client.cancel(task)
    async with Client(broker.url) as asynchronous:
        assert {view.id async for view in asynchronous.stream(ids)} == set(ids)
        assert [view.id for view in await asynchronous.tasks(state="cancelled")] == ids


def test_tasks_are_listed_by_what_they_have_in_common(client):
    acme = [client.submit("echo", tenant="acme").id for _ in range(3)]
    other = client.submit("gate").id
    client.cancel(acme[1])
    assert [view.id for view in client.tasks()] == [*acme, other]
    assert [view.id for view in client.tasks(tenant="acme", limit=2)] == acme[:2]
    assert [view.id for view in client.tasks(capability="gate")] == [other]
    assert [view.id for view in client.tasks(state=TaskState.CANCELLED)] == [acme[1]]
