"""Serves the stylesheet, the icon and the scripts, each under an address that changes with its content."""

import mimetypes
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fastapi import Request, Response

ADDRESS = "/dashboard/static"
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, read once."""

    content: bytes
    media_type: str
    version: str


class StaticFiles:
    """The files of one folder by relative name; nothing outside it can be named."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        self._files = {path.relative_to(folder).as_posix(): _read(path) for path in paths}

    def address(self, name: str) -> str:
        """Return the address under which a browser may keep the file for ever; raise KeyError if there is none."""
        return f"{ADDRESS}/{name}?v={self._files[name].version}"

    def answer(self, request: Request, name: str) -> Response:
        """Answer a request for a file: for ever under its own version, otherwise to be asked for again."""
        file = self._files.get(name)
        if file is None:
            return Response("There is no such file.", 404, media_type="text/plain")
        is_exact = request.query_params.get("v") == file.version
        headers = {"cache-control": _FOR_EVER if is_exact else "no-cache", "etag": f'"{file.version}"'}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "text/plain"
    return StaticFile(content, media_type, sha256(content).hexdigest()[:16])
