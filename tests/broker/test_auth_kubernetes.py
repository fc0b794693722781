"""What is remembered of the API server's answers, and what that is good for when it is away."""

import asyncio
import base64
import json

import pytest

from broker_process import eventually_async
from leadsman_broker.auth import AuthUnavailableError, Role, UnauthenticatedError
from leadsman_broker.auth.kubernetes import KubernetesAuth
from leadsman_broker.auth.token_review import Reviewed

OPERATOR = "system:serviceaccount:leadsman:operator"
WORKER = "system:serviceaccount:research:worker"


class ApiServer:
    """Answers reviews from a table, counts them, and can be away or slow."""

    def __init__(self):
        self.answers = {}
        self.reviews = []
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def review(self, token):
        self.reviews.append(token)
        await self.gate.wait()
        if self.away:
            raise AuthUnavailableError("the API server does not answer")
        return self.answers.get(token, Reviewed(None, error="token has been invalidated"))

    async def close(self):
        pass


class Time:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def server():
    server = ApiServer()
    server.answers["worker"] = Reviewed(WORKER, pod_uid="pod-1")
    server.answers["operator"] = Reviewed(OPERATOR)
    return server


@pytest.fixture
def time():
    return Time()


@pytest.fixture
async def auth(server, time):
    auth = KubernetesAuth(server, operators=[OPERATOR], admins=["system:admin"], monotonic=time, wall=time)
    yield auth
    await auth.close()


async def test_a_service_account_is_producer_and_worker_in_its_own_namespace(auth):
    principal = await auth.authenticate("worker")

    assert principal.name == WORKER
    assert principal.roles == {Role.PRODUCER, Role.WORKER}
    assert principal.pod_uid == "pod-1"
    assert principal.may(frozenset({Role.WORKER}), "research")
    assert not principal.may(frozenset({Role.WORKER}), "other")
    assert not principal.may(frozenset({Role.OPERATOR}), None)


async def test_named_identities_are_operator_and_admin(auth, server):
    server.answers["root"] = Reviewed("system:admin")
    server.answers["imposter"] = Reviewed("system:serviceaccount:evil:operator")

    assert Role.OPERATOR in (await auth.authenticate("operator")).roles
    assert (await auth.authenticate("root")).roles == {Role.ADMIN}
    assert Role.OPERATOR not in (await auth.authenticate("imposter")).roles


async def test_a_user_who_is_no_service_account_has_no_role(auth, server):
    server.answers["alice"] = Reviewed("alice@example.com")

    principal = await auth.authenticate("alice")

    assert not any(principal.may(frozenset({role}), "default") for role in Role)


async def test_a_known_token_is_not_reviewed_again_while_it_is_fresh(auth, server, time):
    await auth.authenticate("worker")
    time.now += 59

    assert auth.known("worker").name == WORKER
    assert (await auth.authenticate("worker")).name == WORKER
    assert server.reviews == ["worker"]


async def test_an_ageing_answer_is_renewed_behind_the_caller(auth, server, time):
    await auth.authenticate("worker")
    server.gate.clear()
    time.now += 61

    assert auth.known("worker").name == WORKER
    assert auth.known("worker").name == WORKER
    server.gate.set()

    async def renewed():
        time.now += 0.001
        return auth.known("worker") and not auth._reviews

    await eventually_async(renewed)
    time.now += 50
    assert auth.known("worker").name == WORKER
    assert server.reviews == ["worker", "worker"]


async def test_a_token_that_was_revoked_is_refused_after_its_answer_has_aged(auth, server, time):
    await auth.authenticate("worker")
    del server.answers["worker"]
    time.now += 121

    assert auth.known("worker") is None
    with pytest.raises(UnauthenticatedError):
        await auth.authenticate("worker")


async def test_callers_at_once_share_one_review(auth, server):
    server.gate.clear()
    callers = [asyncio.create_task(auth.authenticate("worker")) for _ in range(50)]
    await asyncio.sleep(0)
    callers[0].cancel()
    server.gate.set()
    results = await asyncio.gather(*callers, return_exceptions=True)

    assert len(server.reviews) == 1
    assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 1
    assert sum(getattr(result, "name", None) == WORKER for result in results) == 49


async def test_a_refused_token_is_remembered_for_a_moment(auth, server, time):
    for _ in range(3):
        with pytest.raises(UnauthenticatedError, match="invalidated"):
            await auth.authenticate("bad")
    assert len(server.reviews) == 1

    time.now += 11
    server.answers["bad"] = Reviewed(WORKER)
    assert (await auth.authenticate("bad")).name == WORKER


async def test_while_the_api_server_is_away_known_callers_live_on_and_new_ones_are_told(auth, server, time):
    await auth.authenticate("worker")
    server.away = True
    time.now += 3600

    assert (await auth.authenticate("worker")).name == WORKER
    with pytest.raises(AuthUnavailableError):
        await auth.authenticate("operator")

    server.away = False
    assert (await auth.authenticate("operator")).name == OPERATOR


async def test_nobody_outlives_the_expiry_in_the_token(auth, server, time):
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.now + 600}).encode()).decode().rstrip("=")
    token = f"header.{claims}.signature"
    server.answers[token] = Reviewed(WORKER)
    await auth.authenticate(token)
    server.away = True

    time.now += 599
    assert (await auth.authenticate(token)).name == WORKER
    time.now += 2
    with pytest.raises(AuthUnavailableError):
        await auth.authenticate(token)


async def test_made_up_tokens_do_not_push_out_good_ones(auth):
    await auth.authenticate("worker")
    for number in range(3000):
        with pytest.raises(UnauthenticatedError):
            await auth.authenticate(f"made-up-{number}")

    assert auth.known("worker").name == WORKER


@pytest.mark.parametrize("token", [None, "x" * 20_000])
async def test_what_cannot_be_a_token_is_not_sent_to_the_api_server(auth, server, token):
    with pytest.raises(UnauthenticatedError):
        await auth.authenticate(token)

    assert server.reviews == []
