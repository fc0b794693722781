"""Progress lines on standard error: standard output belongs to what a shell evaluates."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REPEAT_SECONDS = 15.0


def say(line: str) -> None:
    """Write one progress line at once."""
    sys.stderr.write(f"cluster: {line}\n")
    sys.stderr.flush()


def out(line: str) -> None:
    """Write one line of result to standard output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def step(what: str) -> Iterator[None]:
    """Announce a slow step, repeat the elapsed time while it runs, and close with how long it took."""
    started = time.monotonic()
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(REPEAT_SECONDS):
            say(f"{what} ... {time.monotonic() - started:.0f} s")

    say(f"{what} ...")
    ticker = threading.Thread(target=repeat, daemon=True)
    ticker.start()
    try:
        yield
    except BaseException:
        say(f"{what}: failed after {time.monotonic() - started:.1f} s")
        raise
    else:
        say(f"{what}: {time.monotonic() - started:.1f} s")
    finally:
        done.set()
        ticker.join()
