"""Threads for sync handlers. They are daemons: a handler that never ends cannot keep the process from ending."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

Job = tuple[Future[Any], Callable[[], Any]]


class HandlerThreads:
    """As many threads as were ever busy at once, at most one per slot, each reused."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._started = 0

    def run(self, function: Callable[[], Any]) -> Future[Any]:
        """Run `function` in a thread, with the caller's context variables; `function` must not raise."""
        future: Future[Any] = Future()
        context = copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._started += 1
                name = f"leadsman-handler-{self._started}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put((future, lambda: context.run(function)))
        return future

    def _work(self) -> None:
        while True:
            future, job = self._jobs.get()
            result = job()
            del job
            with self._lock:
                self._idle += 1
            future.set_result(result)
            del future, result
