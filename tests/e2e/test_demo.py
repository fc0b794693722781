"""The first command of the README, on a real cluster: every promise kept, every number counted."""


def test_the_demo_keeps_every_promise_and_says_so_last(demo_run):
    shown = "\n".join(demo_run.lines)
    assert demo_run.exit_code == 0, shown
    closing = demo_run.closing
    assert closing["submitted"] == closing["completed"] == 56
    assert closing["lost"] == 0
    assert closing["reclaimed"] >= 1
    assert closing["busy_workers_evicted"] == 0
    assert closing["peak_replicas"] == 7
    assert closing["final_replicas"] == 0
    assert closing["enqueue_to_scale_ms"] > 0
    assert closing["seconds"] > 15, "the idle window alone is longer"


def test_the_demo_shows_pools_queues_and_events_as_they_move(demo_run):
    shown = "\n".join(demo_run.lines)
    for words in ("browser  0 → 4 replicas", "llm      0 → 3 replicas", "ScaledOut", "ScaledIn", "SIGKILL"):
        assert words in shown


def test_the_demo_retells_the_fate_of_the_killed_workers_task(demo_run):
    retold = [line for line in demo_run.lines if "resumed_at_page" in line]
    assert len(retold) == 1
    assert "reclaim" in retold[0]


def test_the_demo_says_how_to_look_around_and_how_to_take_it_down(demo_run):
    shown = "\n".join(demo_run.lines)
    for words in ("export KUBECONFIG=", "get workerpools,capabilities", "events --for", "make demo-down"):
        assert words in shown
