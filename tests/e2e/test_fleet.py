"""Fleets of real pods: killed, drained, upgraded around, and gone when nobody needs them."""

import time

import pytest
from demo.installation import SYSTEM
from demo.pods import Pod
from world import capability, pool, until

from leadsman import TaskSubmit


def visit(pages, seconds_per_page=1.0):
    return TaskSubmit(capability="browser", payload={"pages": pages, "seconds_per_page": seconds_per_page})


@pytest.fixture
def agents(world):
    with world.namespace() as name:
        world.apply(name, capability("browser"), pool("browser", world.images.agents))
        world.kubectl("--namespace", name, "wait", "workerpool/browser", "--for=condition=Ready", "--timeout=60s")
        yield name


@pytest.fixture
def client(world, agents):
    with world.client(agents) as client:
        yield client


def leased(client, identifiers):
    """The tasks, once each of them is in a worker's hands."""
    views = [client.get(identifier) for identifier in identifiers]
    return views if all(view.state == "leased" for view in views) else None


def test_the_task_of_a_killed_worker_is_finished_elsewhere_from_its_checkpoint(world, agents, client):
    submitted = client.submit_many([visit(pages=12), visit(pages=12)])
    victim, other = until("both are leased", lambda: leased(client, [one.id for one in submitted]))
    assert victim.worker != other.worker
    time.sleep(3)  # the stimulus: some pages are visited
    pod = next(pod for pod in world.pods(agents, "browser") if victim.worker.startswith(pod.uid))
    world.kill(pod)
    finished = client.wait(victim.id, timeout_seconds=60)
    again = world.get("pod", pod.name, "--namespace", agents)["status"]["containerStatuses"][0]
    assert (again["restartCount"], again["ready"]) == (1, True), "the killed worker is up again at the first try"
    assert finished.state == "completed"
    assert finished.attempts.reclaims == 1
    assert finished.attempts.deliveries == 2
    assert finished.result["resumed_at_page"] >= 1
    assert client.wait(other.id, timeout_seconds=60).attempts.deliveries == 1


def test_a_fleet_comes_with_its_work_and_goes_to_zero_after_it(world, agents, client):
    assert world.replicas(agents, "browser") == 0
    submitted = client.submit_many([visit(pages=1) for _ in range(6)])
    until("two workers are asked for", lambda: world.replicas(agents, "browser") == 2)
    for one in submitted:
        assert client.wait(one.id, timeout_seconds=60).state == "completed"
    until("no worker is asked for", lambda: world.replicas(agents, "browser") == 0)
    until("the last pod is gone", lambda: not world.pods(agents, "browser"))
    shown = world.events(agents, "browser")
    assert "ScaledOut" in shown
    assert "ScaledIn" in shown


def test_a_pool_that_is_deleted_while_busy_lets_its_worker_finish(world, agents, client):
    submitted = client.submit_many([visit(pages=8)])[0]
    before = until("it is leased", lambda: leased(client, [submitted.id]))[0]
    world.kubectl("--namespace", agents, "delete", "workerpool", "browser")
    finished = client.wait(submitted.id, timeout_seconds=60)
    assert finished.state == "completed"
    assert finished.attempts.deliveries == 1
    assert finished.attempts.releases == 0
    assert before.worker
    until("its deployment is gone", lambda: not world.get("deployments", "--namespace", agents)["items"])
    until("its pods are gone", lambda: not world.pods(agents, "browser"))


def test_an_upgrade_of_the_release_interrupts_no_task(world, agents, client):
    submitted = client.submit_many([visit(pages=25), visit(pages=25)])
    identifiers = [one.id for one in submitted]
    before = until("both are leased", lambda: leased(client, identifiers))
    pods = {pod.uid for pod in world.pods(agents, "browser")}
    broker = world.get("pod", "leadsman-broker-0", "--namespace", SYSTEM)["metadata"]["uid"]
    mark = f"run-{time.time_ns()}"
    world.helm(
        *("upgrade", "leadsman", str(world.chart), "--reuse-values", "--wait", "--timeout", "120s"),
        *("--set-string", f"broker.podAnnotations.upgrade={mark}"),
        *("--set-string", f"operator.podAnnotations.upgrade={mark}"),
    )
    assert world.get("pod", "leadsman-broker-0", "--namespace", SYSTEM)["metadata"]["uid"] != broker
    with world.client(agents) as after:
        for view in before:
            finished = after.wait(view.id, timeout_seconds=90)
            assert finished.state == "completed"
            assert finished.attempts.deliveries == 1, finished.history
            assert finished.attempts.reclaims == 0
        assert {pod.uid for pod in world.pods(agents, "browser")} <= pods
        assert after.submit_many([visit(pages=1)])[0].accepted


def test_a_killed_broker_comes_back_with_everything_it_had_accepted(world, agents, client):
    long, *short = client.submit_many([visit(pages=15)] + [visit(pages=1) for _ in range(10)])
    held = until("the long one is leased", lambda: leased(client, [long.id]))[0]

    def broker():
        return world.get("pod", "leadsman-broker-0", "--namespace", SYSTEM)

    def restarts():
        container = broker()["status"]["containerStatuses"][0]
        return container["restartCount"] if container["ready"] else 0

    before = restarts()
    world.kill(Pod.read(broker()))
    until("the broker is ready again", lambda: restarts() > before)
    with world.client(agents) as after:
        views = [after.wait(one.id, timeout_seconds=90) for one in (long, *short)]
    assert {view.state for view in views} == {"completed"}
    assert views[0].attempts.deliveries == 1, "the worker kept its task while the broker was away"
    assert views[0].attempts.reclaims == 0
    assert held.id == views[0].id


def test_the_other_operator_takes_over_when_the_leader_is_taken_away(world, client):
    def leader():
        leases = world.get("leases.coordination.k8s.io", "--namespace", SYSTEM)["items"]
        return next((lease["spec"].get("holderIdentity") for lease in leases), None)

    first = until("there is a leader", leader)
    world.kubectl("--namespace", SYSTEM, "delete", "pod", first, "--grace-period=0", "--force")
    submitted = client.submit_many([visit(pages=1)])[0]
    assert client.wait(submitted.id, timeout_seconds=90).state == "completed"
    assert until("there is another leader", leader) != first
