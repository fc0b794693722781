"""What is read in one pass is what `decode` and the models make of it, or is left to them."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.wire.leases import AckRequest
from leadsman.wire.tasks import SubmitRequest
from leadsman_broker.core.commands import Ack
from leadsman_broker.http.decode import decode
from leadsman_broker.http.new_task import new_task
from leadsman_broker.http.problems import ProblemError
from leadsman_broker.http.usual import UsualTasks, usual_acks

STRANGE = st.text(st.sampled_from([*'":\\/{}[], \n\té\u2028abc\ud800\x00']), max_size=8)
TRICKY = st.text(st.sampled_from([*'":\\/{}[], \né\u2028abc']), max_size=6)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
SAID = st.sampled_from(["work", "Infinity", "https://x.example/a:b", '{"a": 1}', ":", '":', '","a":1'])


def values(scalars, keys):
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


VALUES = values(st.none() | st.booleans() | NUMBERS | TRICKY | SAID, TRICKY | st.just("token"))
WILD = values(st.none() | st.integers(-(10**320), 10**320) | st.floats() | STRANGE | SAID, STRANGE)

TASKS = st.fixed_dictionaries(
    {"capability": st.just("work")},
    optional={
        "payload": VALUES,
        "tenant": st.sampled_from(["", "a", "b:c"]),
        "name": st.just("read"),
        "class": st.sampled_from(["interactive", "background"]),
        "priority": st.integers(0, 9),
        "idempotency_key": st.sampled_from(["k1", "k2", 'k":', None]),
        "traceparent": st.sampled_from(["00-ab-cd-01", "00-ab-cd-02", "x", "", None]),
        "delay_seconds": st.floats(0, 5),
        "estimate": st.dictionaries(st.sampled_from(["tokens", "cost_micros"]), st.integers(0, 9), min_size=1),
    },
)
ANY_TASKS = st.fixed_dictionaries(
    {"capability": st.just("work") | WILD, "payload": VALUES | WILD},
    optional={name: WILD | st.booleans() for name in ("tenant", "class", "priority", "idempotency_key", "unknown")},
)
ACKS = st.fixed_dictionaries({"token": st.just("t.1.a")}, optional={"result": VALUES})
ANY_ACKS = st.fixed_dictionaries(
    {"token": st.just("t.1.a") | WILD},
    optional={
        "result": VALUES | WILD,
        "usage": st.just({"tokens": 1}) | WILD,
        "tasks": st.lists(TASKS, max_size=1),
    },
)


@st.composite
def bodies(draw, name, items):
    """A body as some JSON writer gives it, whole or with a part of it repeated, removed or replaced."""
    comma, colon = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": "), (",", " :"), (" ,\n", "\t: ")]))
    wanted = {name: draw(st.lists(items, min_size=draw(st.sampled_from([0, 1, 1, 1])), max_size=4))}
    text = json.dumps(wanted, separators=(comma, colon), ensure_ascii=draw(st.booleans()))
    content = text.encode("utf-8", "surrogatepass")
    start, end = sorted((draw(st.integers(0, len(content))), draw(st.integers(0, len(content)))))
    part = content[start:end]
    change = draw(st.sampled_from([b"", b"", b"", part, part + part, b"," + part, b'"a":1,', b"\\u003a", b"1e999"]))
    return content[:start] + change + content[end:] if change else content


def tasks_in(body):
    return [new_task(task, task.tenant) for task in decode(SubmitRequest, body).tasks]


def acks_in(body):
    found = []
    for item in decode(AckRequest, body).acks:
        assert item.usage is None
        assert not item.tasks
        result = None if item.result is None else json.loads(json.dumps(item.result))
        found.append((item.token, result))
    return found


def repeated(pairs):
    return ("{" + ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in pairs) + "}").encode()


@given(st.lists(bodies("tasks", TASKS) | bodies("tasks", ANY_TASKS), min_size=1, max_size=3))
@example([b'{"tasks":[{"capability":"work","payload":{"a":1,"a":2}}]}'])
@example([b'{"tasks":[{"capability":"work","payload":{"a" :1,"a":2}}]}'])
@example([b'{"tasks":[{"capability":"work","payload":{"\\u0022:":1,"a":2,"a":3}}]}'])
@example([b'{"tasks":[{"capability":"work","payload":1,"payload":2}]}'])
@example([b'{"tasks":[{"capability":"work","payload":1e999}]}'])
@example([b'{"tasks":[{"capability":"work","payload":' + b"9" * 400 + b"}]}"])
@example([b'{"tasks":[{"capability":"work","payload":' + b"[" * 160 + b"]" * 160 + b"}]}"])
@example([b'{"tasks":[{"capability":"work","payload":1}],"tasks":[]}'])
def test_tasks_read_in_one_pass_are_those_of_the_models(bodies):
    usual = UsualTasks()
    for body in bodies:  # one after the other: a form that was seen before must not let anything else through
        found = usual.read(body)
        if found is not None:
            assert found == tasks_in(body)


@given(bodies("acks", ACKS) | bodies("acks", ANY_ACKS))
@example(b'{"acks":[{"token":"t","token":"u"}]}')
@example(b'{"acks":[{"token":"t","result":{"a":1,"a":1}}]}')
def test_acks_read_in_one_pass_are_those_of_the_models(body):
    found = usual_acks("ns", body)
    if found is not None:
        results = [(ack.token, None if ack.result is None else json.loads(ack.result)) for ack in found]
        assert results == acks_in(body)
        assert {ack[3:] for ack in found} <= {(None, ())}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"tenant": "a"},
        {"idempotency_key": "k"},
        {"idempotency_key": None, "payload": None},
        {"idempotency_key": "k", "traceparent": "00-ab-cd-01"},
        {"priority": 3, "class": "interactive"},
        {"estimate": {"tokens": 1}},
    ],
)
def test_what_clients_usually_send_is_read_in_one_pass(separators, more):
    payload = {"url": "https://x.example:8080/", "said": '{"a":": b"}', "é": [1.5, None, {"deep": {"er": "\n"}}]}
    body = {"tasks": [{"capability": "work", "payload": payload, **more} for _ in range(60)]}
    text = json.dumps(body, separators=separators, ensure_ascii=False).encode()
    assert UsualTasks().read(text) == tasks_in(text)
    acks = json.dumps({"acks": [{"token": "t.1.a"}, {"token": "t.2.b", "result": payload}]}, ensure_ascii=False)
    assert usual_acks("ns", acks.encode()) == [
        Ack("ns", "t.1.a"),
        Ack("ns", "t.2.b", json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()),
    ]


@given(st.lists(st.tuples(st.text("ab:", max_size=2), VALUES), min_size=1, max_size=3), st.data())
def test_a_key_that_occurs_twice_is_never_taken(pairs, data):
    twice = repeated([*pairs, (data.draw(st.sampled_from(pairs))[0], None)])
    body = b'{"tasks":[{"capability":"work","payload":%b}]}' % data.draw(st.sampled_from([twice, b"[%b]" % twice]))
    assert UsualTasks().read(body) is None
    assert usual_acks("ns", b'{"acks":[{"token":"t","result":%b}]}' % twice) is None
    with pytest.raises(ProblemError):
        tasks_in(body)


def test_what_is_each_tasks_own_is_not_remembered():
    usual = UsualTasks()
    for number in range(100):
        own = b'"idempotency_key":"k%d","traceparent":"00-%d"' % (number, number)
        assert usual.read(b'{"tasks":[{"capability":"work","payload":%d,%b}]}' % (number, own))
    assert len(usual._forms) == 1


def test_forms_are_not_remembered_without_end():
    usual = UsualTasks()
    for number in range(5_000):
        assert usual.read(b'{"tasks":[{"capability":"work","payload":1,"tenant":"t%d"}]}' % number)
    assert len(usual._forms) <= 4096
