"""A stand-in for a model provider: `python model_server.py 8900`. It answers as one does, and is busy as one is.

POST /v1/chat/completions takes {"messages": [...]}; every third call is refused with 429 and Retry-After, as a
provider does under load. The "answer" to a page is a program that counts its words.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_JSON = {"Content-Type": "application/json"}
PROGRAM = "import sys\nwords = sys.stdin.read().split()\nprint(len(words), max(words, key=len))\n"


class Model(BaseHTTPRequestHandler):
    calls = 0
    paid = 0

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Model.calls += 1
        if Model.calls % 3 == 1:
            self._answer(429, {"error": {"message": "too many requests"}}, {"Retry-After": "1"})
            return
        Model.paid += 1
        prompt = asked["messages"][-1]["content"]
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(PROGRAM.split())}
        self._answer(200, {"choices": [{"message": {"content": PROGRAM}}], "usage": usage})

    def _answer(self, status: int, body: dict, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (_JSON | {"Content-Length": str(len(data))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(port: int) -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", port), Model)


if __name__ == "__main__":
    serve(int(sys.argv[1])).serve_forever()
