"""`python -m warploom.host` as a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest
from survey_server import SurveyServer

from warploom.host.fake_cards import FakeCards
from warploom.host.fake_files import write_json

SPARSE = ("asyncpg", "fastapi", "fastmcp", "httpx", "pydantic", "pynvml", "redis", "rich", "typer", "uvicorn", "yaml")


@pytest.fixture
def server() -> Iterator[SurveyServer]:
    server = SurveyServer()
    yield server
    server.close()


@contextmanager
def host(home: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WARPLOOM_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "warploom.host"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=clean | {"WARPLOOM_HOME": str(home), "WARPLOOM_SURVEY_SECONDS": "0.1"} | environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_it_tells_of_fake_cards_until_it_is_asked_to_end(home, cards, server):
    with host(home, WARPLOOM_URL=server.url, WARPLOOM_FAKE_GPUS="3") as process:
        survey = server.await_surveys(2)[-1]
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=30)[1]

    assert [card.uuid for card in survey.cards] == [cards.uuid(card) for card in range(3)]
    assert process.returncode == 0
    assert "local: 3 cards (FAKE-H200 141 GiB, FAKE-H200 141 GiB and FAKE-H200 141 GiB), driver fake" in told
    assert len(told.splitlines()) == 1


def test_it_finds_the_server_of_its_home(home, server):
    write_json(home / "run" / "server.json", {"pid": 1, "url": server.url})

    with host(home, WARPLOOM_FAKE_GPUS="1"):
        assert len(server.await_surveys(1)[0].cards) == 1


def test_a_machine_without_a_driver_reports_that_in_one_sentence(home, server):
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        pass
    else:
        pytest.skip("this machine has an NVIDIA driver")

    with host(home, WARPLOOM_URL=server.url):
        survey = server.await_surveys(2)[-1]

    assert (survey.provider, survey.cards) == ("none", [])
    assert "driver" in (survey.problem or "")
    assert (survey.problem or "").count("Everything else works") == 1


def test_it_ends_at_once_while_a_card_hangs_and_the_server_is_away(home):
    FakeCards(home).set_hanging(0, 3600)

    with host(home, WARPLOOM_URL="http://127.0.0.1:9", WARPLOOM_FAKE_GPUS="2") as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 0


def test_a_setting_that_makes_no_sense_is_told_in_one_line(home):
    with host(home, WARPLOOM_FAKE_GPUS="many") as process:
        told = process.communicate(timeout=30)[1]

    assert process.returncode == 2
    assert told == "fake_gpus is 'many'. Set WARPLOOM_FAKE_GPUS to a number of 0 or more.\n"


def test_a_scenario_brings_its_cards_and_is_played_from_the_start(home, server, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "{name: mine, sentence: A ghost comes., cards: 2, steps: [{action: ghost, args: {card: 1, mib: 7000}}]}"
    )

    with host(home, WARPLOOM_URL=server.url, WARPLOOM_FAKE_SCENARIO=str(path)):
        first = server.await_surveys(1)[0]
        haunted = next(
            survey for count in range(2, 200) if (survey := server.await_surveys(count)[-1]).cards[1].used_mib
        )

    assert len(first.cards) == 2
    assert [card.used_mib for card in haunted.cards] == [0, 7000]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"WARPLOOM_FAKE_SCENARIO": "no-such-thing"}, "There is no scenario 'no-such-thing'. "),
        (
            {"WARPLOOM_FAKE_SCENARIO": "somebody-else-uses-a-card", "WARPLOOM_FAKE_GPUS": "1"},
            "The scenario somebody-else-uses-a-card needs 2 cards, and WARPLOOM_FAKE_GPUS is 1. ",
        ),
    ],
)
def test_a_scenario_that_cannot_be_played_is_told_in_one_line(home, settings, sentence):
    with host(home, **settings) as process:
        told = process.communicate(timeout=30)[1]

    assert process.returncode == 2
    assert told.startswith(sentence)
    assert len(told.splitlines()) == 1


def test_with_fake_cards_it_loads_nothing_that_it_does_not_need(home):
    script = """
import sys
from warploom.config import Settings
from warploom.host.main import build_agent
build_agent(Settings.load())
print(" ".join({name.partition(".")[0] for name in sys.modules}))
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "WARPLOOM_HOME": str(home), "WARPLOOM_FAKE_GPUS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert set(SPARSE) & set(ended.stdout.split()) == set()
