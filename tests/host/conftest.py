"""A home with fake cards, and real processes that use them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from trainings import DEAF, TRAINS, Training

from warploom.host.fake_cards import FakeCards


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def cards(home: Path) -> FakeCards:
    return FakeCards(home)


@pytest.fixture
def train(home: Path) -> Iterator[Callable[..., Training]]:
    """Start a process that occupies the first card it sees; what is given by name goes into its environment."""
    yield from _trainings(home, TRAINS)


@pytest.fixture
def deaf(home: Path) -> Iterator[Callable[..., Training]]:
    """Start such a process that does not end when it is told to (TERM)."""
    yield from _trainings(home, DEAF + TRAINS)


def _trainings(home: Path, text: str) -> Iterator[Callable[..., Training]]:
    running: list[Training] = []

    def start(memory_mib: int = 9000, utilisation: int | None = None, device: int = 0, **environment: str) -> Training:
        script = text.format(memory_mib=memory_mib, utilisation=utilisation, device=device)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "WARPLOOM_"))}
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean | {"WARPLOOM_HOME": str(home)} | environment,
        )
        running.append(Training(process))
        return running[-1]

    yield start
    for training in running:
        training.end()
