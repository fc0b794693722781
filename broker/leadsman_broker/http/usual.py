"""Batches of tasks and acks in the form that JSON writers give them, read in one pass.

`decode` goes through a body three times: for what two programs could read differently, for its depth, and into
models, of which commands are made. Here all of that is told from what one pass finds, without a model for a task:

- No object has a key twice when as many keys are written back as there are in the text. They are counted by `":`,
  which ends each of them unless a space comes between. A string may hold it too, but then it is written back as
  well, unless it was in what a second key pushed out: so fewer are found exactly when a key was lost.
- What tasks have in common, all but payload, key and trace, is validated by the model for the first of them. The
  same text means the same for all that follow.

What is not so (None) is for `decode`, which also says what is wrong with it.
"""

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from leadsman.wire.base import MAX_BATCH, Token
from leadsman.wire.tasks import IdempotencyKey, TaskSubmit, TraceParent
from leadsman_broker.core.commands import Ack, NewTask
from leadsman_broker.core.fingerprint import fingerprint
from leadsman_broker.core.making import make
from leadsman_broker.http.decode import ENVELOPE, SPARE_LEVELS, has_large_numbers
from leadsman_broker.http.new_task import new_task

_KEY_END = b'":'
_SPACED = re.compile(rb"[\n\r\t]:")
_LARGE_DIGITS = 300
"""Below so many a whole number fits into a double."""
_KNOWN_FORMS = 4096
_SHORT_BYTES = 2048
"""Up to here it is quicker to count brackets than to read the body in an envelope."""

_PAYLOAD, _TRACE = NewTask._fields.index("payload"), NewTask._fields.index("traceparent")
_KEY, _FINGERPRINT = NewTask._fields.index("idempotency_key"), NewTask._fields.index("fingerprint")

_TOKENS = TypeAdapter(list[Token])
_KEYS = TypeAdapter(list[IdempotencyKey])
_TRACES = TypeAdapter(list[TraceParent])


class UsualTasks:
    """Reads the bodies of submits, and remembers the forms of tasks that it has seen."""

    def __init__(self) -> None:
        self._forms: dict[bytes, NewTask] = {}

    def read(self, body: bytes) -> list[NewTask] | None:
        """Return the tasks of a `SubmitRequest`."""
        items = _items(body, "tasks")
        if items is None:
            return None
        found: list[NewTask] = []
        own_keys: list[str] = []
        own_traces: list[str] = []
        written = 1
        for item in items:
            if type(item) is not dict:
                return None
            keys = len(item)
            payload = item.pop("payload", None)
            key = item.pop("idempotency_key", None)
            trace = item.pop("traceparent", None)
            rest = to_json(item)
            form = self._forms.get(rest) or self._learn(rest)
            text = _written(payload)
            if form is None or text is None:
                return None
            written += keys - len(item) + rest.count(_KEY_END) + text.count(_KEY_END)
            values = [*form]
            values[_PAYLOAD] = text
            if key is not None:
                own_keys.append(key)
                values[_KEY] = key
                values[_FINGERPRINT] = fingerprint(payload)
            if trace is not None:
                own_traces.append(trace)
                values[_TRACE] = trace
            found.append(make(NewTask, tuple(values)))
        if written != body.count(_KEY_END):
            return None
        fit = (not own_keys or _fit(_KEYS, own_keys)) and (not own_traces or _fit(_TRACES, own_traces))
        return found if fit else None

    def _learn(self, rest: bytes) -> NewTask | None:
        try:
            task = TaskSubmit.model_validate_json(rest)
        except ValidationError:
            return None
        if len(self._forms) >= _KNOWN_FORMS:
            self._forms.clear()
        form = self._forms[rest] = new_task(task, task.tenant)
        return form


def usual_acks(namespace: str, body: bytes) -> list[Ack] | None:
    """Return the acks of an `AckRequest` that carries no usage and no tasks."""
    items = _items(body, "acks")
    if items is None:
        return None
    found: list[Ack] = []
    written = 1
    for item in items:
        if type(item) is not dict or "token" not in item:
            return None
        result = None
        if len(item) > 1:
            if len(item) > 2 or "result" not in item:
                return None
            text = _written(item["result"])
            if text is None:
                return None
            written += text.count(_KEY_END)
            result = None if item["result"] is None else text
        written += len(item)
        found.append(make(Ack, (namespace, item["token"], result, None, ())))
    tokens = [ack.token for ack in found]
    return found if written == body.count(_KEY_END) and _fit(_TOKENS, tokens) else None


def _items(body: bytes, name: str) -> list[Any] | None:
    """Return the list that is the only field of a body and has as many items as a batch may have."""
    # A character written as a number could be one that ends a key, written back as itself. Single bytes are found
    # much faster than two, so that these are only looked for where there is one.
    if b"\\" in body and b"\\u" in body:
        return None
    if b" " in body and b" :" in body:
        return None
    if (b"\n" in body or b"\r" in body or b"\t" in body) and _SPACED.search(body):
        return None
    try:
        tree = _tree(body)
    except ValueError:
        return None
    if type(tree) is not dict or len(tree) != 1:
        return None
    items = tree.get(name)
    return items if type(items) is list and 0 < len(items) <= MAX_BATCH else None


def _tree(body: bytes) -> Any:
    """Read a body. Raises ValueError, also when it is nested more deeply than `decode` allows."""
    if len(body) < _SHORT_BYTES and body.count(b"{") + body.count(b"[") <= SPARE_LEVELS:
        return from_json(body, allow_inf_nan=False)
    before, after = ENVELOPE
    tree = from_json(before + body + after, allow_inf_nan=False)
    for _ in range(SPARE_LEVELS):
        (tree,) = tree
    return tree


def _written(value: Any) -> bytes | None:
    """Return the JSON text of a value; None when a number in it may be beyond a double."""
    text = to_json(value)
    if b"Infinity" in text or (len(text) > _LARGE_DIGITS and has_large_numbers(text)):
        return None
    return text


def _fit(kind: TypeAdapter[Any], values: list[Any]) -> bool:
    try:
        kind.validate_python(values, strict=True)
    except ValidationError:
        return False
    return True
