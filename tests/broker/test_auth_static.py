"""Tokens from a file, and what each role may do over HTTP."""

import hashlib
import json

import pytest

from broker_process import BrokerClient, BrokerProcess, BrokerStartError
from leadsman.wire.problems import Problem
from leadsman_broker.auth.static import StaticTokens, TokensFileError

TOKENS = {
    "producer": "producer-token-0123456789",
    "worker": "worker-token-0123456789",
    "operator": "operator-token-0123456789",
    "admin": "admin-token-0123456789",
    "everywhere": "everywhere-token-0123456789",
}
FILE = {
    "tokens": [
        {"name": "p", "token": TOKENS["producer"], "roles": ["producer"], "namespaces": ["default"]},
        {"name": "w", "token": TOKENS["worker"], "roles": ["worker"], "namespaces": ["default"]},
        {
            "name": "o",
            "tokenSha256": hashlib.sha256(TOKENS["operator"].encode()).hexdigest(),
            "roles": ["operator"],
        },
        {"name": "a", "token": TOKENS["admin"], "roles": ["admin"]},
        {"name": "e", "token": TOKENS["everywhere"], "roles": ["producer", "worker"], "namespaces": ["*"]},
    ]
}

LEASE = {
    "worker": {"pod_uid": "p", "incarnation": "1"},
    "capabilities": ["work"],
    "slots": 1,
    "free_slots": 1,
    "attempt_id": "a",
}
CALLS = {
    "submit": ("POST", "tasks", {"tasks": [{"capability": "work"}]}),
    "list tasks": ("GET", "tasks", None),
    "lease": ("POST", "leases", LEASE),
    "ack": ("POST", "leases/ack", {"acks": [{"token": "x"}]}),
    "dead letters": ("GET", "capabilities/work/dead", None),
    "redrive": ("POST", "capabilities/work/redrive", {"ids": ["00"]}),
    "purge": ("POST", "capabilities/work/purge", {"ids": ["00"]}),
    "pause": ("POST", "capabilities/work/pause", {}),
    "resume": ("POST", "capabilities/work/resume", None),
    "read capabilities": ("GET", "capabilities", None),
    "set capabilities": ("PUT", "capabilities", {"generation": 1, "capabilities": [{"name": "work"}]}),
    "stats of a namespace": ("GET", "stats", None),
    "stats": ("GET", "/v1/stats", None),
    "fence": ("POST", "/v1/workers/fence", {"operation": "o", "pod_uids": ["p"]}),
    "unfence": ("POST", "/v1/workers/unfence", {"pod_uids": ["p"]}),
}
READ = {"list tasks", "dead letters", "read capabilities", "stats of a namespace"}
_CARE = {"redrive", "purge", "pause", "resume"}
MAY = {
    "producer": READ | {"submit", *_CARE},
    "worker": READ | {"lease", "ack"},
    "operator": READ | {*_CARE, "set capabilities", "stats", "fence", "unfence"},
    "admin": set(CALLS),
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured-broker")
    (folder / "tokens.json").write_text(json.dumps(FILE))
    args = ["--tokens-file", str(folder / "tokens.json")]
    with BrokerProcess(folder, auth="static", args=args, memory=True) as broker:
        yield broker


async def allowed(broker, token, namespace="default"):
    """The calls that are not refused for who the caller is."""
    async with BrokerClient(broker.url, token=token, namespace=namespace) as client:
        return {name for name, call in CALLS.items() if (await client.call(*call)).status not in {401, 403}}


async def test_each_role_may_do_what_it_is_for_and_nothing_else(secured):
    for role, calls in MAY.items():
        assert await allowed(secured, TOKENS[role]) == calls, role


async def test_a_caller_reaches_only_its_own_namespaces(secured):
    assert await allowed(secured, TOKENS["producer"], "other") == set()
    assert await allowed(secured, TOKENS["worker"], "other") == set()
    assert "submit" in await allowed(secured, TOKENS["everywhere"], "other")
    assert await allowed(secured, TOKENS["operator"], "other") == MAY["operator"]


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wrong-token-0123456789", "Basic dXNlcjpwYXNz", "Bearer \xff"]
)
async def test_without_a_known_token_nothing_is_told(secured, header):
    async with BrokerClient(secured.url) as client:
        headers = {} if header is None else {"Authorization": header}
        for method, path, body in CALLS.values():
            reply = await client.call(method, path, body, headers=headers)
            problem = Problem.model_validate(reply.json)
            assert (reply.status, problem.code) == (401, "unauthenticated")
            assert reply.headers["WWW-Authenticate"] == "Bearer"
            assert "token" in problem.detail


async def test_a_refusal_names_the_role_that_is_missing(secured):
    async with BrokerClient(secured.url, token=TOKENS["producer"]) as client:
        reply = await client.call("GET", "/v1/stats")

    assert (reply.status, reply.code) == (403, "forbidden")
    assert "operator" in reply.json["detail"]
    assert "producer" in reply.json["detail"]


async def test_the_operations_port_and_the_document_need_no_token(secured):
    async with BrokerClient(secured.url) as client:
        assert (await client.call("GET", "/v1/openapi.json")).status == 200
        async with client.session.get(secured.ops_url + "/readyz") as response:
            assert response.status == 200


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tokens: [", "is not YAML"),
        ("tokens: []", "wrong at tokens"),
        ("- 1", "wrong at the top level"),
        ('{"tokens": [{"name": "x", "token": "short", "roles": ["admin"]}]}', "wrong at tokens.0.token"),
        (
            '{"tokens": [{"name": "x", "token": "0123456789abcdef", "roles": ["root"]}]}',
            "wrong at tokens.0.roles.0",
        ),
        ('{"tokens": [{"name": "x", "roles": ["admin"]}]}', "exactly one of token and tokenSha256"),
        ('{"tokens": [{"name": "x", "token": "0123456789abcdef", "roles": ["worker"]}]}', "need namespaces"),
        (
            json.dumps({"tokens": [{"name": n, "token": "0123456789abcdef", "roles": ["admin"]} for n in "xy"]}),
            "the same token",
        ),
    ],
)
def test_what_is_wrong_with_a_tokens_file_is_told_in_one_line_without_a_token(tmp_path, text, complaint):
    path = tmp_path / "tokens.yaml"
    path.write_text(text)

    with pytest.raises(TokensFileError) as refused:
        StaticTokens.load(path)

    (line,) = str(refused.value).splitlines()
    assert complaint in line
    assert "0123456789abcdef" not in line


@pytest.mark.parametrize(("text", "complaint"), [(None, "No such file"), ("tokens: []", "wrong at tokens")])
def test_a_broker_whose_tokens_file_cannot_be_used_ends_with_one_line(start_broker, tmp_path, text, complaint):
    path = tmp_path / "tokens.yaml"
    if text is not None:
        path.write_text(text)

    with pytest.raises(BrokerStartError) as refused:
        start_broker(auth="static", args=["--tokens-file", str(path)])

    assert refused.value.exit_code == 1
    (line,) = refused.value.log.splitlines()
    assert line.startswith("leadsman-broker: ")
    assert complaint in line


async def test_where_identity_says_the_tenant_a_claim_is_overwritten(secured):
    rules = [{"name": "named", "tenant_from": "Identity"}, {"name": "claimed"}]
    async with BrokerClient(secured.url, token=TOKENS["admin"], namespace="tenants") as admin:
        reply = await admin.call("PUT", "capabilities", {"generation": 1, "capabilities": rules})
        assert reply.status == 200
    async with BrokerClient(secured.url, token=TOKENS["everywhere"], namespace="tenants") as client:
        tasks = [{"capability": rule["name"], "tenant": "somebody-else"} for rule in rules]
        reply = await client.call("POST", "tasks", {"tasks": tasks})
        views = [(await client.call("GET", f"tasks/{result['id']}")).json for result in reply.json["results"]]
    assert [view["tenant"] for view in views] == ["e", "somebody-else"]
