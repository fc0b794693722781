"""What every tier needs of the process that runs it."""

import os
import signal

import hypothesis
import pytest

# How long an example takes, or its making, says how busy the machine is.
hypothesis.settings.register_profile("ours", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("ours")

# A shell that starts a job in the background makes it ignore SIGINT, and every program it starts inherits that:
# Ctrl-C could then not be tested. A handler of our own is set back to the default in those programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is only there for the long target: nothing is missing when it does not run."""
    if os.environ.get("LEADSMAN_LONG"):
        return
    left_out = [item for item in items if item.get_closest_marker("long_only")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
