"""Telling the broker how attempts ended: gathered while a call is in flight, repeated until it is answered."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from leadsman.connection.backoff import Backoff, later
from leadsman.connection.http import HttpConnection
from leadsman.connection.replies import parse
from leadsman.errors import BrokerUnreachableError, InvalidRequestError, LeadsmanError
from leadsman.logs import get_logger
from leadsman.wire.base import Request
from leadsman.wire.leases import (
    AckItem,
    AckRequest,
    NackItem,
    NackRequest,
    ReleaseItem,
    ReleaseRequest,
    SettleReply,
    SettleResult,
)
from leadsman.wire.problems import ProblemCode
from leadsman.worker.holding import Held
from leadsman.worker.standing import Standing
from leadsman.worker.verdicts import MAX_DELAY_SECONDS, Done, Failed, GivenBack, Gone, Verdict, task_error

_MAX_ITEMS = 100
"""Of at most 64 KiB each: one call stays below what the broker takes."""
_TIMEOUT_SECONDS = 30.0
_CHECKPOINT_REFUSED = frozenset({ProblemCode.CHECKPOINT_TOO_LARGE, ProblemCode.INVALID_REQUEST})

Item = TypeVar("Item", AckItem, NackItem, ReleaseItem)


@dataclass(eq=False, slots=True)
class Pending(Generic[Item]):
    """One settlement that is not answered yet."""

    item: Item
    answer: "asyncio.Future[SettleResult]"


class Settling:
    """Settles leases on one event loop; each kind of settlement has its own line of calls."""

    def __init__(self, connection: HttpConnection, standing: Standing) -> None:
        self._log = get_logger("leadsman.worker")
        self._acks = Line[AckItem](connection, standing, "ack", lambda items: AckRequest(acks=items))
        self._nacks = Line[NackItem](connection, standing, "nack", lambda items: NackRequest(nacks=items))
        self._releases = Line[ReleaseItem](
            connection, standing, "release", lambda items: ReleaseRequest(releases=items)
        )

    async def settle(self, held: Held, verdict: Verdict) -> None:
        """Say how the attempt ended; returns once the broker has answered, whatever it answered."""
        if isinstance(verdict, Gone):
            return
        answer = await self._say(held, verdict)
        if answer.ok:
            return
        if isinstance(verdict, Done) and answer.code == ProblemCode.RESULT_TOO_LARGE:
            refused = Failed(task_error("InvalidResult", answer.detail or "the result is too large"), retry=False)
            answer = await self._say(held, refused)
        elif held.unsaved is not None and answer.code in _CHECKPOINT_REFUSED:
            answer = await self._say(held, verdict, with_checkpoint=False)
        if not answer.ok:
            self._log.warning(
                "the broker did not take the outcome",
                code=answer.code,
                detail=answer.detail,
                task=held.facts.task_id,
                attempt=held.facts.attempt,
                capability=held.facts.capability,
            )

    async def _say(self, held: Held, verdict: Verdict, *, with_checkpoint: bool = True) -> SettleResult:
        token = held.token
        carried = held.unsaved if with_checkpoint else None
        spent: dict[str, Any] = {} if held.usage is None else {"usage": held.usage}
        extra = spent if carried is None else spent | {"checkpoint": carried.state}
        match verdict:
            case Done(result):
                said = spent if result is None else spent | {"result": result}
                if follow_ups := held.follow_ups:
                    said = said | {"tasks": follow_ups}
                item = AckItem(token=token, **said)
                answer = await self._acks.send(item)
                if answer.code == ProblemCode.INVALID_REQUEST and not answer.ok:
                    error = task_error("InvalidResult", answer.detail or "the broker refuses the result")
                    return await self._say(held, Failed(error, retry=False))
                return answer
            case Failed(error, retry, after):
                return await self._nacks.send(
                    NackItem(token=token, error=error, retry=retry, retry_after_s=after, **extra)
                )
            case GivenBack(reason, delay, spread):
                seconds = min(later(delay), MAX_DELAY_SECONDS) if spread else delay
                return await self._releases.send(
                    ReleaseItem(token=token, delay_seconds=seconds, reason=reason, **extra)
                )
            case Gone():
                return SettleResult(ok=True)


class Line(Generic[Item]):
    """Calls of one kind, one in flight at a time; what comes meanwhile goes together with the next."""

    def __init__(
        self,
        connection: HttpConnection,
        standing: Standing,
        operation: str,
        request: Callable[[list[Item]], Request],
    ) -> None:
        self._connection = connection
        self._standing = standing
        self._request: Callable[[list[Item]], Request] = request
        self._path = connection.address.path("leases", operation)
        self._waiting: list[Pending[Item]] = []
        self._sender: asyncio.Task[None] | None = None

    async def send(self, item: Item) -> SettleResult:
        """Return the broker's answer for one item, however long that takes."""
        pending = Pending(item, asyncio.get_running_loop().create_future())
        self._waiting.append(pending)
        if self._sender is None or self._sender.done():
            # In a context of its own: what it says is not of the attempt that happened to begin it.
            self._sender = asyncio.create_task(self._send_all(), context=Context())
        return await pending.answer

    async def _send_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_MAX_ITEMS], self._waiting[_MAX_ITEMS:]
            await self._send(batch)

    async def _send(self, batch: list[Pending[Item]]) -> None:
        backoff = Backoff()
        request = self._request([pending.item for pending in batch])
        content = request.model_dump_json(by_alias=True, exclude_unset=True).encode()
        while True:
            try:
                reply = await self._connection.call("POST", self._path, content, timeout_seconds=_TIMEOUT_SECONDS)
                results = parse(SettleReply, reply.body, url=self._connection.address.url).results
                if len(results) != len(batch):
                    raise BrokerUnreachableError(
                        f"the broker gave {len(results)} answers to {len(batch)} settlements",
                        url=self._connection.address.url,
                    )
            except InvalidRequestError as error:
                await self._refused(batch, error)
                return
            except LeadsmanError as error:
                self._standing.failed(error)
                await asyncio.sleep(backoff.next())
            else:
                for pending, result in zip(batch, results, strict=True):
                    if not pending.answer.done():
                        pending.answer.set_result(result)
                return

    async def _refused(self, batch: list[Pending[Item]], error: InvalidRequestError) -> None:
        """One item spoils the whole request: halve it until that one stands alone."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._send(batch[:middle])
            await self._send(batch[middle:])
            return
        if not batch[0].answer.done():
            batch[0].answer.set_result(SettleResult(ok=False, code=ProblemCode.INVALID_REQUEST, detail=str(error)))
