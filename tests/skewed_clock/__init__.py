"""Programs whose computer has another idea of what time it is: real ones, with a wall clock that is wrong.

Only the wall clock: a monotonic clock is as good on a computer that is set wrongly.
"""

import os
import sys
from pathlib import Path

_SITE = Path(__file__).parent / "site"


def skewed(ahead_seconds: float) -> dict[str, str]:
    """The environment of such a program."""
    return {
        "PYTHONPATH": os.pathsep.join([str(_SITE), *filter(None, sys.path)]),
        "LEADSMAN_TEST_CLOCK_AHEAD": str(ahead_seconds),
    }
