"""Asks a local server whether it lives, in just enough of its own protocol and without its client library."""

import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

from warploom.client.processes import identity_of
from warploom.domain.processes import ProcessIdentity

_SECONDS = 3.0
_PROTOCOL = 3 << 16


class Refused(Exception):
    """The Postgres lives and said no; `code` is its five-letter SQLSTATE."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def ask_postgres(path: Path, user: str, question: str) -> str:
    """Return the first column of the first row of a statement's answer, or ""; raise OSError where nothing listens."""
    with _connect(path) as connection:
        parameters = f"user\0{user}\0database\0postgres\0\0".encode()
        connection.sendall(struct.pack("!ii", len(parameters) + 8, _PROTOCOL) + parameters)
        _until_ready(connection)
        statement = question.encode() + b"\0"
        connection.sendall(b"Q" + struct.pack("!i", len(statement) + 4) + statement)
        return _until_ready(connection)


def ping_valkey(path: Path) -> bool:
    """Say whether a Valkey or Redis answers at the socket; raise OSError where nothing listens."""
    with _connect(path) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")


def shut_down_valkey(path: Path) -> None:
    """Ask a Valkey to end now, with nothing saved; a signal is only noticed at its next tick, up to a second later."""
    with suppress(OSError), _connect(path) as connection:
        connection.sendall(b"SHUTDOWN NOSAVE\r\n")
        connection.recv(64)


def listener_at(path: Path) -> ProcessIdentity | None:
    """Return the process that listens at a socket, or None when nothing does."""
    try:
        with _connect(path) as connection:
            pid = _peer(connection)
    except OSError:
        return None
    return identity_of(pid) if pid > 0 else None


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_SECONDS)
    try:
        connection.connect(str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _peer(connection: socket.socket) -> int:
    if sys.platform == "linux":
        return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return connection.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID


def _until_ready(connection: socket.socket) -> str:
    value = ""
    while True:
        kind, length = struct.unpack("!ci", _read(connection, 5))
        body = _read(connection, length - 4)
        if kind == b"Z":
            return value
        if kind == b"E":
            raise _refusal(body)
        if kind == b"R" and body[:4] != b"\0\0\0\0":
            raise Refused("28000", "It asks for a password.")
        if kind == b"D" and not value:
            size = struct.unpack("!i", body[2:6])[0]
            value = body[6 : 6 + max(size, 0)].decode(errors="replace")


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionResetError("The server hung up.")
        parts += part
    return bytes(parts)


def _refusal(body: bytes) -> Refused:
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return Refused(fields.get(b"C", ""), fields.get(b"M", ""))
