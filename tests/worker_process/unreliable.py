"""A network at its worst: a proxy that delays, cuts and duplicates calls at random."""

import random
import socket
import threading
import time
from collections import Counter

from .proxy import CuttingProxy, _break, _messages

_DELAY_SECONDS = 0.1


class UnreliableProxy(CuttingProxy):
    """Each call has the same small chance of every misfortune; `happened` counts them."""

    def __init__(self, port: int, seed: int, chance: float = 0.02) -> None:
        self._random = random.Random(seed)
        self._chance = chance
        self._count = threading.Lock()
        self.happened: Counter[str] = Counter()
        super().__init__(port)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        try:
            for _, request in _messages(client):
                fate = self._fate()
                if fate == "delayed":
                    time.sleep(self._random.random() * _DELAY_SECONDS)
                if fate == "duplicated":
                    threading.Thread(target=self._again, args=(request,), daemon=True).start()
                if fate == "request cut":
                    break
                server.sendall(request)
                reply = next(_messages(server), None)
                if reply is None or fate == "reply cut":
                    break
                client.sendall(reply[1])
        except OSError:
            pass
        finally:
            _break(client)
            _break(server)

    def _fate(self) -> str | None:
        with self._count:
            drawn = int(self._random.random() / self._chance)
            names = ("delayed", "duplicated", "request cut", "reply cut")
            if drawn >= len(names):
                return None
            self.happened[names[drawn]] += 1
            return names[drawn]

    def _again(self, request: bytes) -> None:
        """Deliver the same request once more, as a network that repeats itself; nobody hears the answer."""
        try:
            with socket.create_connection(("127.0.0.1", self._target), timeout=5) as server:
                server.sendall(request)
                next(_messages(server), None)
        except OSError:
            pass
