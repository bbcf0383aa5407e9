"""A real HTTP server that answers as the test scripts it, in the form of Warploom's own API."""

import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from warploom.domain.errors import NotFound, WarploomError


@dataclass(frozen=True)
class Call:
    """One request as it came in."""

    method: str
    path: str
    query: str
    body: Any
    headers: dict[str, str]


Command = Callable[..., subprocess.CompletedProcess[str]]
Answer = Any  # a value, an error, raw bytes, a Stream, or a function of the call that returns one of these


@dataclass(frozen=True)
class Stream:
    """Server-sent events: each value is one message; afterwards the connection closes."""

    values: list[Any]


class ScriptedServer:
    """`on` scripts answers: each call takes the next one, and the last is repeated."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._scripts: list[tuple[str, re.Pattern[str], list[Answer]]] = []
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._arrived = threading.Condition(self._lock)
        self._http = self._listen(0)
        self._port = self._http.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self._scripts.insert(0, (method, re.compile(path), list(answers)))

    def called(self, method: str, path: str) -> list[Call]:
        return [call for call in list(self.calls) if call.method == method and re.fullmatch(path, call.path)]

    def await_call(self, method: str, path: str, count: int = 1, seconds: float = 20) -> Call:
        with self._arrived:
            done = self._arrived.wait_for(lambda: len(self.called(method, path)) >= count, seconds)
        assert done, f"no {method} {path} within {seconds} s; seen: {[(call.method, call.path) for call in self.calls]}"
        return self.called(method, path)[count - 1]

    def stop(self) -> None:
        """Stop as a killed server does: every connection ends at once."""
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def start_again(self) -> None:
        self._http = self._listen(self._port)

    def answer(self, call: Call) -> Answer:
        with self._arrived:
            self.calls.append(call)
            self._arrived.notify_all()
            for method, path, answers in self._scripts:
                if method == call.method and path.fullmatch(call.path):
                    answer = answers.pop(0) if len(answers) > 1 else answers[0]
                    break
            else:
                answer = NotFound(f"Nothing is scripted for {call.method} {call.path}.", "Mend the test.")
        return answer(call) if isinstance(answer, Callable) else answer

    def _listen(self, port: int) -> ThreadingHTTPServer:
        server = self

        class Handler(_Handler):
            script = server

        class Server(ThreadingHTTPServer):
            def process_request(self, request: Any, client_address: Any) -> None:
                server._connections.add(request)
                super().process_request(request, client_address)

            def shutdown_request(self, request: Any) -> None:
                server._connections.discard(request)
                super().shutdown_request(request)

        http = Server(("127.0.0.1", port), Handler)
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return http


class _Handler(BaseHTTPRequestHandler):
    script: ScriptedServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = msgspec.json.decode(self.rfile.read(length)) if length else None
        path, _, query = self.path.partition("?")
        self._send(self.script.answer(Call(self.command, path, query, body, dict(self.headers))))

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _send(self, answer: Answer) -> None:
        if isinstance(answer, Stream):
            self._send_stream(answer)
            return
        status = answer.status if isinstance(answer, WarploomError) else 200
        content = _content(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send_stream(self, stream: Stream) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b": hello\r\n\r\n")
        for value in stream.values:
            data = msgspec.json.encode(value)
            self.wfile.write(b"id: 1\r\nevent: any\r\ndata: " + data + b"\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _content(answer: Answer) -> bytes:
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, WarploomError):
        answer = {"error": {"code": answer.code, "cause": answer.cause, "next": answer.next_step}}
    return msgspec.json.encode(answer)


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    try:
        yield server
    finally:
        server.stop()
