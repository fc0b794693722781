"""The reply to a lease call, put together from texts.

Payloads and checkpoints are JSON texts as the producer and the worker sent them, and are copied without being
parsed and written again. What the leases of a reply have in common is written once. As models that are made only to
be written, the leases of a busy broker cost more than choosing them.
"""

from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from leadsman_broker.core.results import Granted
from leadsman_broker.engine import LeaseGrant
from leadsman_broker.store.interface import Delivery

_TERMS = Granted._fields.index("namespace")
"""From this field on a grant says what all of one queue have in common."""

_Written = dict[tuple[Any, ...], str]


def lease_reply(grant: LeaseGrant, now: float) -> bytes:
    """Return the JSON of a `LeaseReply`. A task without a delivery was settled meanwhile, and is left out."""
    written: _Written = {}
    leases = [
        _lease(granted, delivery, now, written)
        for granted in grant.answer.leases
        if (delivery := grant.deliveries.get(granted.task_id)) is not None
    ]
    return b'{"worker":"%b","leases":[%b]}' % (grant.answer.worker.value.encode(), b",".join(leases))


def _lease(granted: Granted, delivery: Delivery, now: float, written: _Written) -> bytes:
    key = granted[_TERMS:]
    terms = written.get(key)
    if terms is None:
        terms = written[key] = _terms(granted, now)
    more = ""
    if granted.run_id:
        more = f',"run_id":{_quoted(granted.run_id)}'
    if delivery.traceparent is not None:
        more += f',"traceparent":{_quoted(delivery.traceparent)}'
    if granted.maybe_ran:
        more += ',"maybe_ran":true'
    budget = ""
    if granted.remaining is not None:
        left = granted.remaining._asdict()
        amounts = {name: amount for name, amount in left.items() if amount is not None}
        budget = f'"remaining_budget":{to_json(amounts).decode()},'
    text = (
        f'{{"token":"{granted.token}",{budget}{terms},"id":"{granted.task_id}","name":{_quoted(delivery.name)},'
        f'"tenant":{_quoted(granted.tenant)},"class":"{granted.task_class.value}","priority":{granted.priority},'
        f'"attempt":{granted.attempt},"max_attempts":{granted.max_attempts},"epoch":{granted.epoch},'
        f'"age_seconds":{granted.age_seconds:.6f}{more},"payload":'
    )
    checkpoint = b"" if delivery.checkpoint is None else b',"checkpoint":%b' % delivery.checkpoint
    once = b"" if delivery.once is None else b',"once":%b' % delivery.once
    return b"%b%b%b%b}}" % (text.encode(), delivery.payload, checkpoint, once)


def _terms(granted: Granted, now: float) -> str:
    """Return the fields of a lease that others of its queue share, up to the first ones of its task."""
    progress = ""
    if granted.progress_timeout_seconds is not None:
        progress = f'"progress_timeout_seconds":{granted.progress_timeout_seconds!r},'
    return (
        f'"expires_in_seconds":{max(0.0, granted.expires_at - now):.6f},'
        f'"lease_seconds":{granted.lease_seconds!r},"heartbeat_seconds":{granted.heartbeat_seconds!r},'
        f'"attempt_timeout_seconds":{granted.attempt_timeout_seconds:.6f},'
        f'"unreachable_seconds":{granted.unreachable_seconds!r},{progress}'
        f'"task":{{"namespace":{_quoted(granted.namespace)},"capability":{_quoted(granted.capability)}'
    )


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return to_json(text).decode()
