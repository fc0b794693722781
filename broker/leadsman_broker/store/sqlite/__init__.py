"""The embedded store: one SQLite file, one writer, every commit on disk before it returns."""

from leadsman_broker.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
