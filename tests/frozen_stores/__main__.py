"""`python -m frozen_stores`: freeze a file of the present version."""

import tempfile
from pathlib import Path

from frozen_stores import freeze

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(freeze(Path(folder)))
