"""The `leadsman` command, also installed as `kubectl-leadsman`."""

import sys

from leadsman.init import split_when_first


def main() -> None:
    """Run the command line and exit with its code."""
    # First of all: as process 1 of a container a signal is heard only from here on.
    split_when_first()
    from leadsman.cli.program import run  # noqa: PLC0415  whatever is loaded before the split is loaded twice

    sys.exit(run(sys.argv[1:]))
