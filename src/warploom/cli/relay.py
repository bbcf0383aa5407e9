"""Passes a job's output on unchanged while reading its progress, from a process that outlives `warploom run`."""

import contextlib
import os
import select
import signal
import termios
import threading
import time
import tty
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from warploom.cli.faults import FaultReader
from warploom.cli.jobs import Streams
from warploom.cli.progress import Progress, ProgressReader

_PIECE: Final = 65_536
_DRAIN_SECONDS: Final = 10.0
_FLUSH_SECONDS: Final = 1.0
_REPORT_INTERVAL: Final = 1.0
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP)


@dataclass(slots=True)
class _Channel:
    """One way out: the job writes to `entry`, the relay reads `source` and writes to `sink`."""

    entry: int
    source: int
    sink: int
    is_terminal: bool
    reader: ProgressReader = field(default_factory=ProgressReader)
    faults: FaultReader = field(default_factory=FaultReader)


class Relay:
    """A relay in a process of its own. When `run` is killed it goes on, so that the job never writes into nothing."""

    def __init__(self, send: Callable[[Progress], None]) -> None:
        """Fork the relay; `send` is called there, in a thread. Must be called before this process has threads."""
        channels, entries = _open_channels()
        self._job_ended, told_end = os.pipe()[::-1]
        self._drained, drained = os.pipe()
        if os.fork() == 0:
            _close(self._job_ended, self._drained, *{channel.entry for channel in channels})
            _serve(channels, told_end, drained, send)
        _close(told_end, drained, *(channel.source for channel in channels))
        self._entries = {channel.entry for channel in channels}
        self.streams = Streams(*entries)

    def close_entries(self) -> None:
        """Leave the job as the only writer; to be called once it has been started, or cannot be."""
        _close(*self._entries)

    def drain(self) -> str | None:
        """Wait until everything the ended job printed is passed on; a slow reader is waited for only so long.

        Return what the output last said of broken hardware, or None.
        """
        _close(self._job_ended)
        poller = select.poll()
        poller.register(self._drained, select.POLLIN)
        told = os.read(self._drained, _PIECE) if poller.poll(_DRAIN_SECONDS * 1000) else b""
        _close(self._drained)
        return told.decode(errors="replace") or None


class Reporter:
    """Sends the latest progress at most once a second from a thread of its own; older ones are dropped."""

    def __init__(self, send: Callable[[Progress], None]) -> None:
        self._send = send
        self._condition = threading.Condition()
        self._latest: Progress | None = None
        self._is_busy = False
        self._thread: threading.Thread | None = None

    def report(self, progress: Progress) -> None:
        """Keep a progress for sending; returns at once."""
        with self._condition:
            self._latest = progress
            self._condition.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="reporter", daemon=True)
                self._thread.start()

    def flush(self, seconds: float) -> None:
        """Wait until the latest progress is sent, at most for some seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._latest is None and not self._is_busy, seconds)

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._latest is not None)
                progress, self._latest, self._is_busy = self._latest, None, True
            with contextlib.suppress(Exception):
                if progress is not None:
                    self._send(progress)
            with self._condition:
                self._is_busy = False
                self._condition.notify_all()
            time.sleep(_REPORT_INTERVAL)


def _open_channels() -> tuple[list[_Channel], list[int]]:
    """Make a channel for stdout and stderr, one for both where both go to the same place, so that order is kept."""
    channels: dict[tuple[int, int, int], _Channel] = {}
    entries: list[int] = []
    for sink in (1, 2):
        facts = os.fstat(sink)
        place = (facts.st_dev, facts.st_ino, facts.st_rdev)
        if place not in channels:
            channels[place] = _open_terminal(sink) if os.isatty(sink) else _open_pipe(sink)
        entries.append(channels[place].entry)
    return list(channels.values()), entries


def _open_pipe(sink: int) -> _Channel:
    source, entry = os.pipe()
    return _Channel(entry, source, sink, is_terminal=False)


def _open_terminal(sink: int) -> _Channel:
    """Give the job a terminal of its own, so that it prints as it would to the real one, which alone translates lines."""
    source, entry = os.openpty()
    settings = termios.tcgetattr(entry)
    settings[tty.OFLAG] &= ~termios.OPOST
    termios.tcsetattr(entry, termios.TCSANOW, settings)
    channel = _Channel(entry, source, sink, is_terminal=True)
    _copy_size(channel)
    return channel


def _copy_size(channel: _Channel) -> None:
    with contextlib.suppress(OSError, termios.error):
        size = termios.tcgetwinsize(channel.sink)
        if size != termios.tcgetwinsize(channel.source):
            termios.tcsetwinsize(channel.source, size)


def _serve(channels: list[_Channel], job_ended: int, drained: int, send: Callable[[Progress], None]) -> None:
    try:
        os.setsid()
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        _pump(channels, job_ended, drained, Reporter(send))
    finally:
        os._exit(0)


def _pump(channels: list[_Channel], job_ended: int, drained: int, reporter: Reporter) -> None:
    """Pass on what arrives until nobody can write any more; say once when the job has ended and all is passed on."""
    by_source = {channel.source: channel for channel in channels}
    poller = select.poll()
    for source in (*by_source, job_ended):
        poller.register(source, select.POLLIN)
    is_ending = is_told = False
    while by_source:
        ready = [source for source, _ in poller.poll(0 if is_ending else None)]
        if is_ending and not ready:
            reporter.flush(_FLUSH_SECONDS)
            _tell_fault(drained, channels)
            is_ending, is_told = False, True
        for source in ready:
            if source == job_ended:
                poller.unregister(job_ended)
                is_ending = True
            elif not _pass_on(by_source[source], reporter):
                poller.unregister(source)
                _close(by_source.pop(source).source)
    reporter.flush(_FLUSH_SECONDS)
    if not is_told:
        _tell_fault(drained, channels)


def _tell_fault(drained: int, channels: list[_Channel]) -> None:
    """Hand on what the output said of broken hardware, and that all of it is passed on; in one piece, by its length."""
    line = next((channel.faults.line for channel in channels if channel.faults.line), None)
    with contextlib.suppress(OSError):
        os.write(drained, (line or "").encode())
    _close(drained)


def _pass_on(channel: _Channel, reporter: Reporter) -> bool:
    """Pass one piece on; False at the end, or when a pipe's reader has gone, which the job then learns in its own way."""
    try:
        piece = os.read(channel.source, _PIECE)
    except OSError:
        return False
    if not piece:
        return False
    if channel.is_terminal:
        _copy_size(channel)
    channel.faults.feed(piece)
    progress = channel.reader.feed(piece)
    if progress is not None:
        reporter.report(progress)
    try:
        _write(channel.sink, piece)
    except BrokenPipeError:
        return False
    except OSError:
        return True  # the terminal has gone; the job may go on without it
    return True


def _write(sink: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            select.select([], [sink], [])


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
