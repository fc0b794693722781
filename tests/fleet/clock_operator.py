"""The operator with a wall clock that a test sets: the file `LEADSMAN_TEST_CLOCK` says how far it is ahead.

Nothing else of it is other than in a pod; durations are measured on the monotonic clock in any case.
"""

import datetime as dt
import os
from pathlib import Path

from leadsman_operator import cli
from leadsman_operator.reconcile.controller import PoolController


def _wall_clock() -> dt.datetime:
    ahead = float(Path(os.environ["LEADSMAN_TEST_CLOCK"]).read_text())
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=ahead)


if __name__ == "__main__":
    defaults = PoolController.__init__.__kwdefaults__
    assert defaults is not None
    assert "wall_clock" in defaults
    defaults["wall_clock"] = _wall_clock
    cli.main()
