"""For producers: submit tasks, wait for what becomes of them, look after the dead-letter queue."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leadsman.client.asynchronous import Client as Client
    from leadsman.client.blocking import SyncClient as SyncClient

__all__ = ["Client", "SyncClient"]


def __getattr__(name: str) -> Any:
    # Each alone: a program needs one of them, and `leadsman` alone needs neither.
    if name == "Client":
        from leadsman.client.asynchronous import Client  # noqa: PLC0415

        return Client
    if name == "SyncClient":
        from leadsman.client.blocking import SyncClient  # noqa: PLC0415

        return SyncClient
    raise AttributeError(f"module 'leadsman.client' has no attribute {name!r}")
