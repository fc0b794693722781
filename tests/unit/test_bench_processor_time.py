"""A share of a core is of the whole time, and the worst window is found wherever it lies."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def processor_time(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    sys.modules.pop("processor_time", None)
    import processor_time

    return processor_time


def readings(module, *each_second):
    """Readings once a second, with the processor time used in each."""
    found = [module.Used(100.0, 7.0)]
    for seconds in each_second:
        found.append(module.Used(found[-1].at + 1, found[-1].seconds + seconds))
    return found


def test_the_share_is_of_all_the_time(processor_time):
    assert processor_time.percent(readings(processor_time, 0.5, 0, 0, 0)) == pytest.approx(12.5)


@pytest.mark.parametrize("before", [0, 1, 57, 95])
def test_the_worst_window_is_found_wherever_it_lies(processor_time, before):
    quiet = [0.01] * before
    rest = [0.01] * (95 - before)
    found = readings(processor_time, *quiet, *[0.2] * 5, *rest)
    assert processor_time.worst_percent(found, 5) == pytest.approx(20)
    assert processor_time.worst_percent(found, 10) == pytest.approx(10.5)


def test_a_time_shorter_than_the_window_is_the_worst_itself(processor_time):
    assert processor_time.worst_percent(readings(processor_time, 0.1, 0.3), 45) == pytest.approx(20)


def test_what_this_process_uses_is_read(processor_time):
    import os

    before = processor_time.used(os.getpid())
    while processor_time.used(os.getpid()).seconds - before.seconds < 0.05:
        sum(range(10_000))
    assert processor_time.percent([before, processor_time.used(os.getpid())]) > 0
