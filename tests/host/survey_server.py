"""A small HTTP server that takes surveys, gives orders and remembers what it was told."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import msgspec

from warploom.domain.hosts import Survey

PATIENCE = 30.0


class SurveyServer:
    """What a host agent speaks to. `judge` makes a card's condition of the number of surveys seen."""

    def __init__(self, port: int = 0) -> None:
        self.surveys: list[Survey] = []
        self.calls: list[str] = []
        self.connections: set[Any] = set()
        self.judge: Callable[[int], str] = lambda _: "clear"
        self.refusal: tuple[int, str] | None = None
        self.orders_at_once = False
        self.changed = threading.Condition()
        self._orders = 0
        self._is_closing = False
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler_for(self))
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and drop every connection."""
        with self.changed:
            self._is_closing = True
            self.changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def order_survey(self) -> None:
        """Ask the host for a look at once."""
        with self.changed:
            self._orders += 1
            self.changed.notify_all()

    def await_surveys(self, count: int) -> list[Survey]:
        """Return what was told once there are `count` surveys."""
        self.await_that(lambda: len(self.surveys) >= count, f"{count} surveys")
        return self.surveys

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition on this server holds; fail when it never does."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), f"no {what} within {PATIENCE:.0f} s"

    def note(self, call: str) -> None:
        with self.changed:
            self.calls.append(call)
            self.changed.notify_all()

    def take_survey(self, body: bytes) -> Any:
        survey = msgspec.json.decode(body, type=Survey)
        with self.changed:
            self.surveys.append(survey)
            self.calls.append("survey")
            condition = self.judge(len(self.surveys))
            self.changed.notify_all()
        conditions = {card.uuid: condition for card in survey.cards}
        return {"at": "2030-01-01T00:00:00Z", "interval_seconds": survey.interval_seconds, "conditions": conditions}

    def give_orders(self, seconds: float) -> Any:
        self.note("orders")
        with self.changed:
            self.changed.wait_for(lambda: self._orders or self._is_closing or self.orders_at_once, seconds)
            is_wanted = self._orders > 0 or self.orders_at_once
            self._orders = 0
        return {"survey": is_wanted, "cursor": ""}


def _handler_for(server: SurveyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            server.connections.add(self.request)
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if server.refusal is None:
                self._answer(200, server.take_survey(body))
            else:
                status, code = server.refusal
                server.note("refused")
                self._answer(status, {"error": {"code": code, "cause": "That is refused.", "next": "Try later."}})

        def do_GET(self) -> None:
            query = dict(part.split("=") for part in urlsplit(self.path).query.split("&"))
            self._answer(200, server.give_orders(float(query["seconds"])))

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _answer(self, status: int, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
