"""What worker and handler process say to each other: JSON objects with their length in front."""

import json
import struct
from dataclasses import asdict
from typing import Any

from leadsman.budget import Left
from leadsman.context import TaskFacts
from leadsman.wire.tasks import TaskError
from leadsman.worker.verdicts import Done, Failed, GivenBack, Gone, Verdict

Frame = dict[str, Any]

LENGTH = struct.Struct("!I")


def pack(frame: Frame) -> bytes:
    """Return a frame as it travels."""
    body = json.dumps(frame, separators=(",", ":")).encode()
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> Frame:
    """Return the frame that `body`, without its length, holds. Raises ValueError for what is none."""
    frame = json.loads(body)
    if not isinstance(frame, dict):
        raise ValueError("a frame is an object")  # noqa: TRY004  one kind of error for whatever a broken child sends
    return frame


def start_frame(facts: TaskFacts, left: Left | None) -> Frame:
    """Return the first frame of an attempt."""
    return {"op": "start", "facts": asdict(facts), "left": left}


def left_in(frame: Frame) -> Left | None:
    """Return what a frame says is left of the budget."""
    return None if frame["left"] is None else (frame["left"][0], frame["left"][1])


def verdict_frame(verdict: Verdict) -> Frame:
    """Return the last frame of an attempt."""
    match verdict:
        case Done(result):
            return {"op": "ended", "kind": "done", "result": result}
        case Failed(error, retry, after):
            return {
                "op": "ended",
                "kind": "failed",
                "error": error.model_dump(),
                "retry": retry,
                "retry_after_seconds": after,
            }
        case GivenBack():
            return {"op": "ended", "kind": "given_back", **asdict(verdict)}
        case Gone():
            return {"op": "ended", "kind": "gone"}


def verdict_of(frame: Frame) -> Verdict:
    """Return the verdict of a last frame."""
    match frame["kind"]:
        case "done":
            return Done(frame["result"])
        case "failed":
            return Failed(TaskError(**frame["error"]), frame["retry"], frame["retry_after_seconds"])
        case "given_back":
            return GivenBack(frame["reason"], frame["delay_seconds"], frame["spread"])
        case _:
            return Gone()
