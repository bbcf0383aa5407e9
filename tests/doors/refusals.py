"""What is sent to the HTTP API to be refused, the one form of refusals, and what they must leave untouched."""

import re
from typing import Any

import httpx

from support.invariants import ask

TABLES = (
    "project",
    "agent",
    "session",
    "host",
    "card",
    "task",
    "dependency",
    "comment",
    "escalation",
    "queue",
    "lease",
    "reservation",
    "progress",
    "event",
    "message",
    "errand",
    "proposal",
)
SENTENCES = re.compile(r"[^\n]+[.?!)]")
HUGE = "9" * 5_000


def counts(url: str) -> list[dict[str, Any]]:
    """Count the rows of every table."""
    columns = ", ".join(f"(select count(*) from {table}) as {table}s" for table in TABLES)
    return ask(url, f"select {columns}")


def refused(answer: httpx.Response, status: int, code: str) -> str:
    """Check the one form of refusals and return the cause."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) == {"code", "cause", "next"}
    assert error["code"] == code
    for sentence in (error["cause"], error["next"]):
        assert SENTENCES.fullmatch(sentence), sentence
        assert len(sentence) < 400
    return error["cause"]


IDS = [
    "0",
    "17",
    "X-1",
    "T",
    "T-",
    "T-0",
    "T--1",
    "T-1.5",
    "T-１７",
    "T-1 2",
    "T-" + "9" * 19,
    "T-" + HUGE,
    "%00",
    "T-1%00",
    "%FF",
    "<b>",
    "T-1'--",
]

JSON = {"Content-Type": "application/json"}
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a number": b"17",
    "a text": b'"train"',
    "half an object": b'{"job": "tr',
    "NaN": b"NaN",
    "minutes NaN": b'{"job": "x", "device": "0", "minutes": NaN}',
    "minutes Infinity": b'{"job": "x", "device": "0", "minutes": Infinity}',
    "minutes -Infinity": b'{"job": "x", "device": "0", "minutes": -Infinity}',
    "minutes 1e999": b'{"job": "x", "device": "0", "minutes": 1e999}',
    "memory NaN": b'{"job": "x", "memory_gib": NaN}',
    "cards NaN": b'{"job": "x", "cards": NaN}',
    "more digits than Python reads": b'{"job": "x", "cards": ' + HUGE.encode() + b"}",
    "deeper than Python reads": b"[" * 100_000,
    "no UTF-8": b'{"job": "\xff\xfe"}',
    "bytes": bytes(range(256)),
    "a form": b"job=train&device=0",
}
