"""Submit a step and wait for its result: `python produce.py apples pears`."""

import sys

from leadsman import SyncClient


def main() -> None:
    """Submit what the command line names."""
    with SyncClient() as client:  # LEADSMAN_BROKER_URL, or http://127.0.0.1:8080
        answer = client.submit("my-agent", {"items": sys.argv[1:] or ["hello"]})
        if answer.id is None:
            sys.exit(f"refused: {answer.reason}; try again in {answer.retry_after_s} s")
        print(client.result(answer.id, timeout_seconds=600))


if __name__ == "__main__":
    main()
