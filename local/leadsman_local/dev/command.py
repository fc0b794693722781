"""`leadsman dev`."""

import asyncio

from leadsman.errors import ConfigurationError
from leadsman.logs import configure
from leadsman_local.dev.system import Options, System


def run(options: Options) -> int:
    """Run local mode; return the exit code."""
    configure("console", "ERROR")
    for path in options.files:
        if not path.exists():
            raise ConfigurationError(f"there is no file {path}")

    async def main() -> int:
        return await System(options).run()

    try:
        return asyncio.run(main())
    except OSError as error:  # a port that is taken, a folder that cannot be written, a disk that is full
        raise ConfigurationError(f"local mode cannot go on: {error}") from error
