"""How a call to the broker can fail."""


class BrokerError(Exception):
    """The broker refused: HTTP `status` and the problem's stable `code`."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"broker: {status} {code}: {detail}")
        self.status = status
        self.code = code


class BrokerUnreachableError(Exception):
    """No usable answer: refused, reset, timed out, or something that is not the broker answered."""
