"""Loaded by the interpreter before any program: its wall clock is `LEADSMAN_TEST_CLOCK_AHEAD` seconds wrong."""

import os
import time

_AHEAD = float(os.environ.get("LEADSMAN_TEST_CLOCK_AHEAD", "0"))
_time = time.time

time.time = lambda: _time() + _AHEAD
