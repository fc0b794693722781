"""What the demo sees is what it tells: watches cut anywhere, pods that leave, workers that lived twice."""

import asyncio
import io
import json

import pytest
from demo import watching
from demo.pods import Pod
from demo.record import Record
from demo.screen import Screen
from rich.console import Console

from leadsman.wire.stats import StatsSnapshot, WorkerStats


def made_record():
    told = []
    record = Record(clock=lambda: 1.0, tell=lambda *words: told.append(words))
    record.begin()
    return record, told


def pod(uid="u1", *, deleting=False):
    metadata = {"name": f"browser-{uid}", "namespace": "n", "uid": uid, "labels": {"leadsman.dev/pool": "browser"}}
    if deleting:
        metadata["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    status = {"containerStatuses": [{"containerID": "containerd://abc", "state": {"running": {}}}]}
    return Pod.read({"metadata": metadata, "spec": {"nodeName": "node"}, "status": status})


def worker(identifier, *, heard, pod_uid="u1"):
    return WorkerStats(
        id=identifier,
        pod_uid=pod_uid,
        namespace="n",
        pool="browser",
        capabilities=["browser"],
        slots=1,
        leases=0,
        idle_seconds=0,
        last_heard_seconds=heard,
        state="active",
    )


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_objects_are_read_whole_wherever_the_stream_is_cut(size, monkeypatch):
    monkeypatch.setattr(watching, "_CHUNK", size)
    documents = [{"type": "ADDED", "object": {"text": "}{ \\" + "\n"}}, {"type": "DELETED", "object": {}}]
    stream = asyncio.StreamReader()
    stream.feed_data("\n".join(json.dumps(one, indent=2) for one in documents).encode())
    stream.feed_eof()
    assert [one async for one in watching._documents(stream)] == documents


def test_a_pod_leaves_once_whether_its_end_is_seen_coming_or_not():
    record, _ = made_record()
    assert record.pod(pod(), gone=False) is False
    assert record.pod(pod(deleting=True), gone=False) is True
    assert record.pod(pod(deleting=True), gone=False) is False
    assert record.pod(pod(deleting=True), gone=True) is False
    assert record.pods == {}
    assert record.pod(pod("u2"), gone=False) is False
    assert record.pod(pod("u2"), gone=True) is True


def test_a_container_is_known_by_its_bare_id():
    assert pod().container_id == "abc"
    assert pod().running


def test_only_a_changed_number_of_replicas_is_told():
    record, told = made_record()
    record.deployment("browser", 0, 0)
    told.clear()
    record.deployment("browser", 4, 0)
    record.deployment("browser", 4, 3)
    assert told == [("scale", "browser", "0 → 4 replicas")]
    assert [change.replicas for change in record.changes if change.pool == "browser"] == [0, 4]


def test_of_two_lives_in_one_pod_the_one_heard_last_counts():
    record, _ = made_record()
    record.pod(pod(), gone=False)
    sample = StatsSnapshot(
        epoch="1",
        sequence=1,
        workers=[
            worker("u1.dead", heard=30),
            worker("u1.alive", heard=1),
            worker("u9.gone", heard=1, pod_uid="u9"),
        ],
    )
    record.statistics(sample)
    assert [one.id for one in record.present_workers("browser")] == ["u1.alive"]


def test_on_a_terminal_a_table_of_the_pools_follows_along():
    record, _ = made_record()
    record.deployment("browser", 4, 3)
    shown = io.StringIO()
    with Screen(Console(file=shown, force_terminal=True, width=80)).following(record):
        pass
    row = next(line for line in shown.getvalue().splitlines() if "browser" in line)
    assert row.split()[1:3] == ["4", "3"]


def test_in_a_log_there_are_lines_only():
    record, _ = made_record()
    shown = io.StringIO()
    screen = Screen(Console(file=shown, width=80))
    with screen.following(record):
        screen.tell("scale", "browser", "0 → 4 replicas")
    assert shown.getvalue().split() == ["0.00", "s", "scale", "browser", "0", "→", "4", "replicas"]
