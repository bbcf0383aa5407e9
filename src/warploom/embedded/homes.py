"""The folder of one local stack: private to its owner, with every file in its place and addresses that fit a socket."""

import fcntl
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from warploom.domain.errors import Unreachable

_CONTENTS = re.compile(r"config\.toml|pg\d+(\.new)?|valkey|fake|logs|run|claims|completions")
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
_LONGEST_ADDRESS = 85  # a socket's path ends at 103 bytes on macOS (107 on Linux), its own name included
_LOCK_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Home:
    """One `$WARPLOOM_HOME`; two spellings of the same folder are the same home."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> "Home":
        """Return the home at a path, which need not exist yet."""
        return cls(path.expanduser().resolve())

    @property
    def mark(self) -> str:
        """The name that tells this home's processes and links from those of other homes."""
        return f"warploom-{sha256(os.fsencode(self.path)).hexdigest()[:8]}"

    def prepare(self) -> None:
        """Make the home and its folders, 0700; raise Unreachable where the folder plainly serves others too."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.path.stat().st_mode & 0o077:
                self._close_to_others()
            for folder in (self.path / "run", self.path / "logs"):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise Unreachable(
                f"Warploom's home {self.path} cannot be used: {error.strerror}.",
                "Choose a folder that you own with WARPLOOM_HOME.",
            ) from error

    def _close_to_others(self) -> None:
        strangers = sorted(entry.name for entry in self.path.iterdir() if not _CONTENTS.fullmatch(entry.name))
        if strangers:
            raise Unreachable(
                f"Warploom's home {self.path} is open to other users and holds files that are not Warploom's "
                f"({strangers[0]}).",
                "Choose a folder of its own with WARPLOOM_HOME.",
            )
        self.path.chmod(0o700)

    def record(self, name: str) -> Path:
        """Return where the record of one process of the stack lies."""
        return self.path / "run" / f"{name}.json"

    def log(self, name: str) -> Path:
        """Return where one process of the stack writes its log."""
        return self.path / "logs" / f"{name}.log"

    @contextmanager
    def locked(self, name: str, patience: float) -> Generator[None]:
        """Hold one of the home's locks, which the kernel frees when this process dies; raise Unreachable after `patience`."""
        deadline = time.monotonic() + patience
        with (self.path / "run" / f"{name}.lock").open("a") as file:
            while not try_lock(file.fileno()):
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"Another process has been starting {name} in {self.path} for more than {patience:.0f} s.",
                        f"Read {self.log(name)}, then try again.",
                    )
                time.sleep(_LOCK_PAUSE)
            yield

    def address(self, folder: Path) -> Path:
        """Return a path of `folder` that is short and plain enough for a socket's address in a URL.

        That is the folder itself in the usual case. A long path, or one with blanks or commas, is reached through a link
        in a private folder of this user; the link is only a client's way in, so it may be lost and made again.
        """
        if len(os.fsencode(folder)) <= _LONGEST_ADDRESS and _PLAIN.fullmatch(str(folder)):
            return folder
        link = self._links() / folder.name
        _make_private(link.parent)
        if not link.is_symlink() or link.readlink() != folder:
            fresh = link.with_name(f"{link.name}.{os.getpid()}")
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(folder)
            fresh.replace(link)
        return link

    def drop_address(self, folder: Path) -> None:
        """Remove the link to a folder, if there is one, once nothing listens there any more."""
        link = self._links() / folder.name
        if link.is_symlink():
            link.unlink(missing_ok=True)
            with suppress(OSError):
                link.parent.rmdir()

    def hold_links(self) -> int | None:
        """Hold the folder of links so that a cleaner of temporary files leaves it; return the descriptor that holds it."""
        try:
            descriptor = os.open(self._links(), os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor

    def _links(self) -> Path:
        runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
        if (
            len(os.fsencode(runtime)) <= _LONGEST_ADDRESS // 2
            and _PLAIN.fullmatch(str(runtime))
            and _is_private(runtime)
        ):
            return runtime / self.mark
        return Path("/tmp") / self.mark.replace("-", f"-{os.getuid()}-")  # noqa: S108  # its owner is checked


def try_lock(descriptor: int) -> bool:
    """Take the lock on an open file if it is free; the lock lives as long as the file is open."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(folder):
        raise Unreachable(
            f"{folder}, where the sockets of this home are linked, belongs to somebody else or is open to others.",
            f"Set WARPLOOM_HOME to a path of at most {_LONGEST_ADDRESS - 10} plain characters, which needs no link.",
        )


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o077
