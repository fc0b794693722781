"""Telling the broker what must not be done twice: repeated until it is answered or the lease is lost."""

import asyncio
import json
from concurrent.futures import Future
from typing import Any

from leadsman.connection.backoff import Backoff
from leadsman.connection.http import HttpConnection
from leadsman.connection.replies import is_temporary, parse
from leadsman.errors import InvalidRequestError, InvalidValueError, LeadsmanError
from leadsman.outcomes import TaskCancelled
from leadsman.wire.leases import OnceReply, OnceRequest
from leadsman.worker.holding import Held
from leadsman.worker.standing import Standing

_TIMEOUT_SECONDS = 10.0


class Remembering:
    """Stores once values on one event loop; `remember` may be called from every thread."""

    def __init__(self, connection: HttpConnection, standing: Standing, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._standing = standing
        self._loop = loop
        self._path = connection.address.path("leases", "once")

    def remember(self, held: Held, key: str, encoded: str, told: Future[Any]) -> Future[None]:
        """Give `told` the value that counts, once it is durable; the future returned is done when that is over.

        `told` fails with TaskCancelled when the lease is lost, and InvalidValueError for what the broker will not
        keep. Whoever cancels it does not stop the storing: what it tells of has happened.
        """
        return asyncio.run_coroutine_threadsafe(self._tell(held, key, encoded, told), self._loop)

    async def _tell(self, held: Held, key: str, encoded: str, told: Future[Any]) -> None:
        try:
            value = await self._answer(held, key, encoded)
        except (Exception, TaskCancelled) as error:  # noqa: BLE001  it is whoever waits that must know
            if told.set_running_or_notify_cancel():
                told.set_exception(error)
        else:
            if told.set_running_or_notify_cancel():
                told.set_result(value)

    async def _answer(self, held: Held, key: str, encoded: str) -> Any:
        request = OnceRequest(token=held.token, key=key, value=json.loads(encoded))
        content = request.model_dump_json().encode()
        backoff = Backoff()
        while not held.lost:
            try:
                reply = await self._connection.call("POST", self._path, content, timeout_seconds=_TIMEOUT_SECONDS)
                answer = parse(OnceReply, reply.body, url=self._connection.address.url)
            except InvalidRequestError as error:
                raise InvalidValueError(str(error)) from error
            except LeadsmanError as error:
                if is_temporary(error):
                    self._standing.failed(error)
                    await asyncio.sleep(backoff.next())
                    continue
                raise
            if answer.ok:
                return answer.value
            if answer.code in {"value_too_large", "too_many_keys"}:
                raise InvalidValueError(f"the value of {key!r} cannot be kept: {answer.detail or answer.code}")
            break
        raise TaskCancelled("the lease is lost")
