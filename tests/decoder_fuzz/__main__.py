"""The fuzz target and its seeds. Arguments are libFuzzer's: -max_total_time=20 -rss_limit_mb=512.

A text is refused with a problem document of 400 or 422, or it is a request whose every part can be stored, hashed
and sent on. Anything else that is raised is a fault and ends the run with a report.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(
    include=["leadsman_broker.http.decode", "leadsman_broker.http.usual", "leadsman_broker.core.ids"]
):
    from leadsman_broker.core.ids import parse_token
    from leadsman_broker.http.decode import decode
    from leadsman_broker.http.problems import ProblemError
    from leadsman_broker.http.usual import UsualTasks, usual_acks

from pydantic import BaseModel
from pydantic_core import to_json

from leadsman.wire.capabilities import CapabilitiesRequest
from leadsman.wire.leases import AckRequest, HeartbeatRequest, LeaseRequest, NackRequest
from leadsman.wire.tasks import SubmitRequest
from leadsman_broker.core.fingerprint import fingerprint

MODELS: list[type[BaseModel]] = [
    SubmitRequest,
    AckRequest,
    NackRequest,
    HeartbeatRequest,
    LeaseRequest,
    CapabilitiesRequest,
]
USUAL = UsualTasks()
TASK = '{"tasks":[{"capability":"work","payload":%s,"idempotency_key":"k"}]}'
SEEDS = [
    *(TASK % payload for payload in ("null", '{"a":[1,2.5e3,"\\ud83d\\ude00"]}', '"\\u0000"', '"\\ud800"')),
    *(
        TASK % payload
        for payload in ("NaN", "-Infinity", "1e999", "9" * 400, '{"a":1,"a":2}', "[" * 300 + "]" * 300)
    ),
    '{"acks":[{"token":"00000000000100000001:1:00","result":{"x":[]}}]}',
    '{"nacks":[{"token":"t:1:s","error":{"type":"E","message":"m"},"checkpoint":null}]}',
    '{"worker":{"pod_uid":"p","incarnation":"1"},"capabilities":["w"],"slots":1,"leases":[{"token":"a:1:b"}]}',
    '{"generation":1,"capabilities":[{"name":"w","lease_seconds":30}]}',
    "\ufeff{}",
    "{}",
]


def target(data: bytes) -> None:
    """Decode one text as one of the requests; the first byte says which."""
    model = MODELS[data[0] % len(MODELS)] if data else SubmitRequest
    try:
        request = decode(model, data[1:])
    except ProblemError as problem:
        if problem.status not in {400, 422}:
            raise
        problem.body()
        if usual(model, data[1:]) is not None:
            raise AssertionError(f"refused ({problem}), but read in one pass") from problem
        return
    read = usual(model, data[1:])
    if read is not None and read != written(request):
        raise AssertionError(f"read in one pass as {read}")
    for value in values(request):
        text = to_json(value)
        if json.loads(text) != value:
            raise AssertionError(f"{text!r} does not come back as it was")
        fingerprint(value)
    if isinstance(request, AckRequest):
        for ack in request.acks:
            parse_token(ack.token)


def usual(model: type[BaseModel], body: bytes) -> list[bytes | None] | None:
    """Return the free-form parts that are read in one pass; None when they are not."""
    if model is SubmitRequest:
        tasks = USUAL.read(body)
        return None if tasks is None else [task.payload for task in tasks]
    acks = usual_acks("default", body) if model is AckRequest else None
    return None if acks is None else [ack.result for ack in acks]


def written(request: BaseModel) -> list[bytes | None]:
    """Return the free-form parts of a request as the core gets them."""
    if isinstance(request, SubmitRequest):
        return [to_json(task.payload) for task in request.tasks]
    return [None if value is None else to_json(value) for value in values(request)]


def values(request: Any) -> list[Any]:
    """Return the free-form parts of a request."""
    if isinstance(request, SubmitRequest):
        return [task.payload for task in request.tasks]
    if isinstance(request, AckRequest):
        return [ack.result for ack in request.acks]
    if isinstance(request, NackRequest):
        return [nack.checkpoint for nack in request.nacks]
    return []


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="leadsman-fuzz-") as folder:
        for number, seed in enumerate(SEEDS):
            for kind in range(len(MODELS)):
                (Path(folder) / f"{number}-{kind}").write_bytes(bytes([kind]) + seed.encode())
        atheris.Setup([*sys.argv, folder], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
