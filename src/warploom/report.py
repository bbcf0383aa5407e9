"""The one-liner for training scripts: `warploom.report(step, total)` tells how far a job is, and can do no harm.

It uses the standard library only. It never raises and never blocks: a thread of its own sends the latest step about
once a second and drops the rest. Outside a lease (without WARPLOOM_LEASE) it does nothing at all.
"""

import os
import sys
import threading
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading typing would cost more than all the rest
    from typing import SupportsInt

_INTERVAL_SECONDS = 1.0
_ANSWER_SECONDS = 3.0
_LAST_WORD_SECONDS = 1.0
_DEFAULT_URL = "http://127.0.0.1:8765"
_LARGEST = 2**53
_DEPTH = 32


class Told:
    """What the server last answered a report of this job. It is true where the job should release its cards."""

    __slots__ = ("should_release",)

    def __init__(self, should_release: bool = False) -> None:
        self.should_release = should_release

    def __bool__(self) -> bool:
        """Say whether the step or moment is reached at which the holder agreed to release."""
        return self.should_release


_NOTHING = Told()


def report(step: "SupportsInt", total: "SupportsInt | None" = None) -> Told:
    """Tell how far this job is: `step` of `total` steps done. Never raises, never blocks, does nothing outside a lease.

    Answers at once with what the server said to an earlier step: it is true once the job should save its state and end,
    because its holder has agreed to release the card by now.
    """
    try:
        lease = os.environ.get("WARPLOOM_LEASE")
        if lease:
            return _sender_of_this_process().take(lease, int(step), None if total is None else int(total))
    except Exception:  # noqa: BLE001, S110  (a training run must not end because of its progress report)
        pass
    return _NOTHING


class _Sender:
    """Sends the latest step of one process; a forked child makes one of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._condition = threading.Condition()
        self._latest: tuple[str, int, int | None] | None = None
        self._over: str | None = None
        self._heard: tuple[str, Told] = ("", _NOTHING)
        self._is_sending = False
        self._is_leaving = False
        self._thread = threading.Thread(target=self._work, name="warploom-report", daemon=True)
        self._thread.start()

    def take(self, lease: str, step: int, total: int | None) -> Told:
        """Keep a step for sending, and return what was last heard of its lease.

        Nothing is kept for a lease that the server has called over.
        """
        if lease == self._over or not 0 <= step <= _LARGEST:
            return _NOTHING
        with self._condition:
            self._latest = (lease, step, total if total is not None and 1 <= total <= _LARGEST else None)
            self._condition.notify_all()
            return self._heard[1] if self._heard[0] == lease else _NOTHING

    def finish(self) -> None:
        """Give the last step a moment to get out before the process ends; in a fork this is none of ours."""
        if self.pid != os.getpid():
            return
        with self._condition:
            self._is_leaving = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._latest is None and not self._is_sending, _LAST_WORD_SECONDS)

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._latest is not None)
                latest, self._latest, self._is_sending = self._latest, None, True
            try:
                if latest is not None:
                    self._hear(latest[0], _post(*latest))
            except Exception:  # noqa: BLE001, S110  (the next step makes up for one that was not heard)
                pass
            with self._condition:
                self._is_sending = False
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._is_leaving, _INTERVAL_SECONDS)

    def _hear(self, lease: str, told: Told | None) -> None:
        if told is None:
            self._over = lease
        else:
            self._heard = (lease, told)


_sender: _Sender | None = None


def _sender_of_this_process() -> _Sender:
    global _sender
    if _sender is None or _sender.pid != os.getpid():
        import atexit  # noqa: PLC0415

        _sender = _Sender()
        atexit.register(_sender.finish)
    return _sender


def _post(lease: str, step: int, total: int | None) -> Told | None:
    """Send one step; None when the server says that the lease is over, so that no more need be sent."""
    import http.client  # noqa: PLC0415  (loaded by the first report, in its thread)
    import json  # noqa: PLC0415
    from urllib.parse import quote, urlsplit  # noqa: PLC0415

    address = urlsplit(_url())
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_ANSWER_SECONDS)
    try:
        body = json.dumps({"step": step, "total": total})
        connection.request("POST", f"/api/v1/leases/{quote(lease, safe='')}/report", body, _headers())
        answer = connection.getresponse()
        if answer.status in (404, 409):
            return None
        return Told(answer.status == 200 and b'"should_release":true' in answer.read())
    finally:
        connection.close()


def _url() -> str:
    import json  # noqa: PLC0415

    given = os.environ.get("WARPLOOM_URL")
    if given:
        return given.rstrip("/")
    home = os.path.expanduser(os.environ.get("WARPLOOM_HOME") or "~/.warploom")  # noqa: PTH111  (pathlib loads slowly)
    try:
        with open(os.path.join(home, "run", "server.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            return str(json.load(file)["url"]).rstrip("/")
    except (OSError, ValueError, KeyError, TypeError):
        return _DEFAULT_URL


def _headers() -> dict[str, str]:
    """Say who we are as the command line does, so that the report counts as its session's."""
    from urllib.parse import quote  # noqa: PLC0415

    names = {"Agent": "AGENT", "Project": "PROJECT", "Session": "SESSION"}
    values = {f"X-Warploom-{header}": os.environ.get(f"WARPLOOM_{name}") for header, name in names.items()}
    headers = {header: quote(value) for header, value in values.items() if value}
    headers["X-Warploom-Host"] = quote(os.environ.get("WARPLOOM_HOST_NAME") or "local")
    lineage = _lineage()
    if lineage:
        headers["X-Warploom-Process"] = lineage[0]
        headers["X-Warploom-Ancestors"] = ",".join(lineage[1:])
    key = os.environ.get("WARPLOOM_KEY")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return headers | {"Content-Type": "application/json"}


def _lineage() -> list[str]:
    """This process and its ancestors as `pid:started`, from /proc; empty where there is none."""
    steps: list[str] = []
    pid = os.getpid()
    while pid > 1 and len(steps) < _DEPTH:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                fields = file.read().rpartition(")")[2].split()
            steps.append(f"{pid}:{int(fields[19])}")
            pid = int(fields[1])
        except (OSError, ValueError, IndexError):
            break
    return steps


class _CallableModule(ModuleType):
    """Lets `warploom.report` be this module and the function at once, whichever of the two was imported first."""

    def __call__(self, step: "SupportsInt", total: "SupportsInt | None" = None) -> Told:
        """Do what `report` does."""
        return report(step, total)


sys.modules[__name__].__class__ = _CallableModule
