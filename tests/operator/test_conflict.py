"""Another writer of the replicas: held, taken back once after a quiet time, and then left alone."""

from leadsman_operator.reconcile.conflict import Contention


def test_a_writer_that_stays_quiet_is_taken_back_once():
    contention = Contention(quiet_seconds=300)
    contention.notice(["kubectl"], 7, 1, 1000.0)
    assert contention.active
    assert contention.take_back_in(1, 1100.0) == 200.0
    contention.notice(["kubectl"], 7, 1, 1299.0)
    assert not contention.taking_back
    contention.notice(["kubectl"], 7, 1, 1300.0)
    assert contention.taking_back
    assert not contention.active
    assert contention.written(1) == ("kubectl",)

    contention.notice(["kubectl"], 9, 1, 2000.0)
    contention.notice(["kubectl"], 9, 1, 9000.0)
    assert contention.active
    assert contention.take_back_in(1, 9000.0) is None


def test_every_further_write_starts_the_quiet_time_again():
    contention = Contention(quiet_seconds=300)
    contention.notice(["kube-controller-manager"], 7, 1, 0.0)
    contention.notice(["kube-controller-manager"], 8, 1, 200.0)
    contention.notice(["kube-controller-manager"], 8, 1, 400.0)
    assert contention.active
    contention.notice(["kube-controller-manager"], 8, 1, 500.0)
    assert contention.taking_back


def test_a_writer_that_comes_back_while_it_is_taken_back_is_held_for_again():
    contention = Contention(quiet_seconds=300)
    contention.notice(["kubectl"], 7, 1, 0.0)
    contention.notice(["kubectl"], 7, 1, 300.0)
    contention.notice(["kubectl"], 6, 1, 301.0)
    assert contention.active


def test_a_change_of_the_spec_is_a_new_chance():
    contention = Contention(quiet_seconds=300)
    contention.notice(["kubectl"], 7, 1, 0.0)
    contention.notice(["kubectl"], 7, 1, 300.0)
    contention.written(1)
    contention.notice(["kubectl"], 8, 1, 400.0)
    contention.renew(2)
    contention.notice(["kubectl"], 8, 2, 500.0)
    contention.notice(["kubectl"], 8, 2, 800.0)
    assert contention.taking_back


def test_a_writer_that_gives_the_field_up_is_forgotten():
    contention = Contention(quiet_seconds=300)
    contention.notice(["kubectl"], 7, 1, 0.0)
    contention.clear()
    assert not contention.active
    assert contention.written(1) == ()
    assert contention.took_back_at is None
