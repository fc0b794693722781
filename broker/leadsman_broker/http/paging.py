"""Pages of tasks: where they begin, how long they are, how they look."""

from collections.abc import Sequence

from leadsman.wire.tasks import TaskList
from leadsman_broker.http import views
from leadsman_broker.http.exchange import Response, bad_query, json_response
from leadsman_broker.http.routing import Parameter
from leadsman_broker.store.interface import TaskRecord

PAGE = 100
MAX_PAGE = 1000
PAGING = (
    Parameter("limit", f"items of a page, at most {MAX_PAGE}", {"type": "integer", "default": PAGE}),
    Parameter("cursor", "`next_cursor` of the page before", {"type": "string"}),
)


def bounds(query: dict[str, str]) -> tuple[int, int]:
    """Return after which seq a page begins and how long it may be. Raises ProblemError."""
    cursor, limit = query.get("cursor", "0"), query.get("limit", str(PAGE))
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise bad_query("cursor", "is not one that the broker gave; start again without it")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 6 and 1 <= int(limit) <= MAX_PAGE):
        raise bad_query("limit", f"must be a whole number from 1 to {MAX_PAGE}")
    return int(cursor), int(limit)


def task_page(records: Sequence[TaskRecord], next_after: int | None, now: float) -> Response:
    """Return a page as it travels."""
    items = [views.task_view(record, now, history=False) for record in records]
    return json_response(TaskList(items=items, next_cursor=None if next_after is None else str(next_after)))
