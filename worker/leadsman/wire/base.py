"""The two kinds of message, and the names and bounds that several of them share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_BATCH = 1000
"""Items in one request. Larger batches hold the writer for long without gaining throughput."""

MAX_WAIT_SECONDS = 60.0
"""The longest a call may be parked; proxies in between close a silent connection at about this age."""

MAX_SLOTS = 4096
"""Slots one worker may declare."""

MAX_INTEGER = 2**63 - 1
"""The largest whole number every store can hold."""

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""A Kubernetes object name: a namespace, a capability, a pool."""

HandlerName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$")]
"""Which handler of a capability runs the task."""

TaskId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
RunId = TaskId
"""Chosen by whoever submits; unique in its namespace."""

Token = Annotated[str, Field(min_length=1, max_length=160, pattern=r"^[A-Za-z0-9_.:-]+$")]
"""A lease: task id, epoch and a random part. Opaque to everyone but the broker."""

WorkerPart = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.-]+$")]
Tenant = Annotated[str, Field(max_length=128, pattern=r"^[^\x00-\x1f]*$")]
Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0, lt=253_402_300_800, allow_inf_nan=False)]
"""Seconds since the epoch by the broker's clock, before the year 10000."""


class Request(BaseModel):
    """A message a caller sends: an unknown field is a mistake and is refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Reply(BaseModel):
    """A message the broker sends: an unknown field comes from a newer broker and is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)
