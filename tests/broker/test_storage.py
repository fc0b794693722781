"""A disk that runs full: new work is refused in time, accepted work is finished, nothing acknowledged is lost."""

import asyncio
import os

import aiohttp
import apsw
import pytest

from broker_process import BrokerClient, BrokerProcess, BrokerStartError, eventually_async

MIB = 1024 * 1024


async def fill(client):
    """Enqueue until the broker refuses; returns the ids and the refusal."""
    accepted = []
    while len(accepted) < 2000:
        task = {"capability": "work", "payload": os.urandom(120_000).hex()}
        reply = await client.call("POST", "tasks", {"tasks": [task] * 4})
        if reply.status != 200:
            return accepted, reply
        accepted += [result["id"] for result in reply.json["results"]]
    raise AssertionError("the broker never refused")


@pytest.mark.parametrize("small_disk", [128], indirect=True)
async def test_a_full_disk_refuses_new_work_finishes_the_old_and_takes_new_work_again(small_disk):
    broker = BrokerProcess(small_disk, args=["--min-free-bytes", str(32 * MIB)])
    with broker:
        async with BrokerClient(broker.url) as client:
            await client.configure({"name": "work", "completed_retention_seconds": 0})

            accepted, refusal = await fill(client)

            assert (refusal.status, refusal.code) == (507, "storage_full")
            assert refusal.headers["Retry-After"] == "30"
            assert "volume" in refusal.json["detail"]
            assert len(accepted) > 10
            async with client.session.get(broker.ops_url + "/metrics") as response:
                assert "leadsman_store_low 1.0" in await response.text()
            finished = 0
            while leases := (await client.lease(slots=10))["leases"]:
                finished += len(leases)
                results = await client.ack(*[lease["token"] for lease in leases])
                assert all(result["ok"] for result in results)
            assert finished == len(accepted)

            async def taken_again():
                reply = await client.call("POST", "tasks", {"tasks": [{"capability": "work"}]})
                return reply.status == 200

            assert await eventually_async(taken_again, what="room for new work", seconds=90)
        assert broker.terminate() == 0


@pytest.mark.parametrize("small_disk", [128], indirect=True)
async def test_a_commit_that_fails_ends_the_process_and_loses_nothing_acknowledged(small_disk):
    ballast = small_disk / "ballast"
    broker = BrokerProcess(small_disk, args=["--min-free-bytes", "65536"])
    with broker:
        async with BrokerClient(broker.url) as client:
            await client.configure({"name": "work"})
            accepted = [result["id"] for result in await client.submit(*[{"capability": "work"}] * 50)]
            leases = (await client.lease(slots=50))["leases"]
            with ballast.open("wb") as file:
                while True:
                    try:
                        os.write(file.fileno(), b"x" * 4096)
                    except OSError:
                        break

            acked = []

            async def ack_all():
                for lease in leases:
                    await client.ack(lease["token"], result="x" * 60_000)
                    acked.append(lease["task"]["id"])

            with pytest.raises(aiohttp.ClientError):
                await ack_all()

        assert await asyncio.to_thread(broker.wait) == 70
        assert any(record["level"] == "critical" for record in broker.log_records())
        ballast.unlink()
        broker.start()
        async with BrokerClient(broker.url) as client:
            for task_id in accepted:
                assert (await client.task(task_id))["state"] == ("completed" if task_id in acked else "leased")
            rest = [lease["token"] for lease in leases if lease["task"]["id"] not in acked]
            assert all(result["ok"] for result in await client.ack(*rest))


async def test_while_another_program_writes_new_work_is_refused_and_all_else_waits(broker):
    async with BrokerClient(broker.url) as client:
        await client.configure({"name": "work"})
        accepted = [result["id"] for result in await client.submit(*[{"capability": "work"}] * 3)]
        (lease,) = (await client.lease())["leases"]
        other = apsw.Connection(str(broker.data / "leadsman.db"))
        other.execute("BEGIN IMMEDIATE")

        acked = asyncio.create_task(client.ack(lease["token"], result="r"))

        async def under_way():
            return (await client.queue())["leased"] == 0  # numbers do not wait for the commit

        await eventually_async(under_way, what="the commit that has to wait")
        refused = await client.call("POST", "tasks", {"tasks": [{"capability": "work"}]})
        assert (refused.status, refused.code) == (503, "unavailable")
        assert "nothing of this request was done" in refused.json["detail"]
        assert int(refused.headers["Retry-After"]) >= 1
        again = await client.call("POST", "tasks", {"tasks": [{"capability": "work"}]})
        assert (again.status, again.code) == (503, "unavailable")
        await eventually_async(lambda: told(broker), what="a warning")
        assert broker.alive
        assert not acked.done()

        other.execute("ROLLBACK")
        other.close()
        assert (await acked)[0]["ok"]
        assert (await client.task(lease["task"]["id"]))["state"] == "completed"
        accepted += [result["id"] for result in await client.submit({"capability": "work"})]
        page = await client.ok("GET", "tasks")
        assert {task["id"] for task in page["items"]} == set(accepted), "what was refused was not done"


async def told(broker):
    return any("holds the database for writing" in record["message"] for record in broker.log_records())


def test_a_start_while_another_program_writes_is_told_in_a_clear_line(broker):
    broker.kill()
    other = apsw.Connection(str(broker.data / "leadsman.db"))
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(BrokerStartError) as refused:
        broker.start()

    assert "another program holds the database for writing" in refused.value.log
    other.execute("ROLLBACK")
    other.close()
    broker.start()


async def test_with_little_room_everything_but_new_work_goes_on(start_broker):
    broker = start_broker()
    async with BrokerClient(broker.url) as client:
        await client.configure({"name": "work"})
        await client.submit(*[{"capability": "work"}] * 4)
    broker.args = ["--min-free-bytes", str(2**60)]
    broker.restart()

    async with BrokerClient(broker.url) as client:
        refused = await client.call("POST", "tasks", {"tasks": [{"capability": "work"}]})
        done, failed, released, dead = (await client.lease(slots=4))["leases"]
        assert (await client.ack(done["token"], result="r"))[0]["ok"]
        assert (await client.nack(failed["token"], checkpoint="c"))["ok"]
        assert (await client.release(released["token"]))["ok"]
        assert (await client.nack(dead["token"], retry=False))["ok"]
        redrive = await client.call("POST", "capabilities/work/redrive", {"ids": [dead["task"]["id"]]})
        await client.configure({"name": "work"}, {"name": "other"}, generation=2)
        fenced = await client.ok("POST", "/v1/workers/fence", {"operation": "o", "pod_uids": ["another"]})

    assert (refused.status, refused.code) == (507, "storage_full")
    assert (redrive.status, redrive.code) == (507, "storage_full")
    assert fenced["results"][0]["outcome"] == "fenced"
