"""The files of the checkout, as git tracks them, or as they lie there when there is no git."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SOURCE = CHECKOUT / "src" / "warploom"
DOCS = CHECKOUT / "docs"
PROGRAMS = Path(sys.executable).parent
_UNTRACKED = {"__pycache__", "node_modules", "dist", "build"}


def tracked_files() -> list[Path]:
    """List every file that a clone would have."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    try:
        listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return sorted(_walk(CHECKOUT))
    found = [CHECKOUT / name for name in listed.split("\0") if name]
    return [path for path in found if path.is_file()]


def text_of(path: Path) -> str:
    """Return a file's text; empty for pictures and the like."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def pages() -> list[Path]:
    """List what people read: the Markdown at the top and everything in docs/."""
    return sorted([*CHECKOUT.glob("*.md"), *DOCS.rglob("*.md")])


def name_of(path: Path) -> str:
    """Name a file by its place in the checkout."""
    return str(path.relative_to(CHECKOUT))


def _walk(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        hidden = entry.name.startswith(".") and entry.name not in (".ci", ".github")
        if entry.is_dir(follow_symlinks=False):
            if not hidden and entry.name not in _UNTRACKED:
                yield from _walk(Path(entry.path))
        elif not entry.name.endswith(".pyc"):
            yield Path(entry.path)
