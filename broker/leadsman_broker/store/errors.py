"""What can go wrong with a store, each with a line a person can act on."""


class StoreError(Exception):
    """The store failed. After a failed commit the process must end: memory and store may not part."""


class StoreFullError(StoreError):
    """No space is left. Nothing of the commit was applied."""


class StoreLockedError(StoreError):
    """Another process has the store open."""


class StoreFencedError(StoreError):
    """A newer process has taken the store over; this one may never write again."""


class BackupError(StoreError):
    """A backup or a restore cannot be done as it was asked for. Nothing was changed."""


class StoreVersionError(StoreError):
    """The file was written by a newer program, or is not one of ours."""
