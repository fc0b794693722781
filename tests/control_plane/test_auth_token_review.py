"""`--auth kubernetes` against a real API server: real service accounts, real projected tokens, real TokenReview."""

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest
import yaml

from broker_process import BrokerClient

AUDIENCE = "leadsman"
TASKS = {"tasks": [{"capability": "work"}]}


class Link:
    """The way from the broker to the API server, which can be cut."""

    def __init__(self, host, port):
        self.target = (host, port)
        self.open = True
        self.url = ""
        self._writers = set()

    @asynccontextmanager
    async def running(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            self.cut()
            server.close()
            await server.wait_closed()

    def cut(self):
        self.open = False
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader, writer):
        if not self.open:
            writer.close()
            return
        onward_reader, onward_writer = await asyncio.open_connection(*self.target)
        self._writers |= {writer, onward_writer}
        await asyncio.gather(_pump(reader, onward_writer), _pump(onward_reader, writer))
        self._writers -= {writer, onward_writer}


async def _pump(reader, writer):
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@pytest.fixture
def accounts(control_plane, namespace):
    """A broker that may review tokens, one that may not, a worker and an operator."""
    for name in ("broker", "powerless", "worker", "operator"):
        control_plane.kubectl("create", "serviceaccount", name, "-n", namespace)
    binding = f"{namespace}-broker"
    control_plane.kubectl(
        "create",
        "clusterrolebinding",
        binding,
        "--clusterrole=system:auth-delegator",
        f"--serviceaccount={namespace}:broker",
    )
    yield namespace
    control_plane.kubectl("delete", "clusterrolebinding", binding)


@pytest.fixture
def token(control_plane, accounts):
    def create(account, *more, audience=AUDIENCE):
        audiences = [f"--audience={audience}"] if audience else []
        return control_plane.kubectl("create", "token", account, "-n", accounts, *audiences, *more).strip()

    return create


@pytest.fixture
async def link(control_plane):
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    host, _, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").rpartition(":")
    async with Link(host, int(port)).running() as link:
        yield link


@pytest.fixture
def start_secured(control_plane, accounts, token, link, start_broker, tmp_path):
    def start(account="broker"):
        config = yaml.safe_load(control_plane.kubeconfig.read_text())
        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
        (tmp_path / "ca.crt").write_bytes(authority)
        (tmp_path / "token").write_text(token(account, audience=None))
        return start_broker(
            auth="kubernetes",
            memory=True,
            args=[
                *("--audience", AUDIENCE),
                *("--kube-api-url", link.url),
                *("--kube-token-file", str(tmp_path / "token")),
                *("--kube-ca-file", str(tmp_path / "ca.crt")),
                *("--operator-identity", f"system:serviceaccount:{accounts}:operator"),
            ],
        )

    return start


def lease_of(pod_uid):
    return {
        "worker": {"pod_uid": pod_uid, "incarnation": "1"},
        "capabilities": ["work"],
        "slots": 1,
        "free_slots": 1,
        "attempt_id": "a",
    }


async def test_service_accounts_work_in_their_own_namespace_and_the_operator_everywhere(
    start_secured, token, namespace
):
    broker = start_secured()
    rules = {"generation": 1, "capabilities": [{"name": "work"}]}
    async with (
        BrokerClient(broker.url, namespace=namespace, token=token("operator")) as operator,
        BrokerClient(broker.url, namespace=namespace, token=token("worker")) as worker,
    ):
        assert (await worker.call("PUT", "capabilities", rules)).status == 403
        assert (await operator.call("PUT", "capabilities", rules)).status == 200
        assert (await worker.call("POST", "tasks", TASKS)).status == 200
        assert len((await worker.lease())["leases"]) == 1
        assert (await worker.call("GET", "/v1/stats")).status == 403
        assert (await operator.call("GET", "/v1/stats")).status == 200
        elsewhere = await worker.call("POST", "/v1/namespaces/kube-system/tasks", TASKS)
        assert (elsewhere.status, elsewhere.code) == (403, "forbidden")
        assert f"system:serviceaccount:{namespace}:worker" in elsewhere.json["detail"]


async def test_a_token_for_another_audience_or_of_nobody_is_refused(start_secured, token, namespace):
    broker = start_secured()
    for bad in (token("worker", audience=None), token("worker", audience="another"), "nonsense", "a.b.c"):
        async with BrokerClient(broker.url, namespace=namespace, token=bad) as client:
            reply = await client.call("POST", "tasks", TASKS)
        assert (reply.status, reply.code) == (401, "unauthenticated")
        assert "audience" in reply.json["detail"]


async def test_a_pods_token_speaks_for_no_other_pod(start_secured, token, control_plane, namespace):
    broker = start_secured()
    container = {"name": "c", "image": "none"}
    control_plane.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "worker-pod", "namespace": namespace},
            "spec": {"serviceAccountName": "worker", "containers": [container]},
        }
    )
    uid = control_plane.get("pod", "worker-pod", "-n", namespace)["metadata"]["uid"]
    bound = token("worker", "--bound-object-kind=Pod", "--bound-object-name=worker-pod")

    async with BrokerClient(broker.url, namespace=namespace, token=bound) as worker:
        own = await worker.call("POST", "leases", lease_of(uid))
        foreign = await worker.call("POST", "leases", lease_of("another-pod"))

    assert own.status == 200
    assert (foreign.status, foreign.code) == (403, "forbidden")
    assert uid in foreign.json["detail"]


async def test_known_callers_live_on_while_the_api_server_is_away(start_secured, token, namespace, link):
    broker = start_secured()
    late = token("operator")
    async with (
        BrokerClient(broker.url, namespace=namespace, token=token("worker")) as known,
        BrokerClient(broker.url, namespace=namespace, token=late) as unknown,
    ):
        assert (await known.call("GET", "tasks")).status == 200
        link.cut()

        refused = await unknown.call("GET", "tasks")
        assert (await known.call("GET", "tasks")).status == 200
        link.open = True
        admitted = await unknown.call("GET", "tasks")

    assert (refused.status, refused.code) == (503, "unavailable")
    assert refused.headers["Retry-After"]
    assert "API server" in refused.json["detail"]
    assert admitted.status == 200


async def test_a_broker_that_may_not_review_tokens_says_what_it_lacks(start_secured, token, namespace):
    broker = start_secured("powerless")

    async with BrokerClient(broker.url, namespace=namespace, token=token("worker")) as client:
        reply = await client.call("GET", "tasks")

    assert (reply.status, reply.code) == (503, "unavailable")
    assert "system:auth-delegator" in reply.json["detail"]
