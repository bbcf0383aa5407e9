"""Writes small files whole: under another name first, forced to the disk, then renamed into place."""

import os
import uuid
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file that only its owner may read; whatever is killed meanwhile, it is there whole or not at all.

    Its folder is made where it is missing. Once this returns, the file survives a loss of power.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _keep(path.parent)


def _keep(folder: Path) -> None:
    """Force a folder's list of names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
