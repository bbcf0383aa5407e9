"""What a host cannot know is told where it matters: by `doctor`, with the host, and in reasons."""

from pathlib import Path

import pytest

from support.fakes import FakeRack
from support.lab import Lab
from warploom.domain.cards import CardState
from warploom.domain.errors import MalformedInput
from warploom.domain.health import Check, Word
from warploom.domain.limits import WORDS, Limit
from warploom.domain.standings import Standing


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def warnings(lab: Lab, name: str = "local") -> list[Check]:
    return [check for check in await lab.app.health.doctor() if check.name == name and check.word is Word.WARN]


@pytest.mark.parametrize("limit", list(Limit))
async def test_each_limit_of_a_host_is_a_warning_with_what_to_do(lab: Lab, home: Path, limit: Limit) -> None:
    """Casebook C12 and C13."""
    await FakeRack(lab, home, limits=[limit]).look()
    assert await warnings(lab) == [Check(Word.WARN, "local", WORDS[limit].text, WORDS[limit].fix)]
    assert (await lab.app.cards.survey()).hosts[0].limits == [WORDS[limit].short]


async def test_a_host_without_limits_that_reports_everything_is_warned_of_nothing(lab: Lab, home: Path) -> None:
    rack = FakeRack(lab, home)
    rack.run(0)
    await rack.look()
    assert await warnings(lab) == []
    assert (await lab.app.cards.survey()).hosts[0].limits == []


async def test_inside_a_container_a_process_shows_by_its_memory_and_the_reason_says_how_to_name_it(
    lab: Lab, home: Path
) -> None:
    """Casebook C13: the list of processes is empty there."""
    rack = FakeRack(lab, home, limits=[Limit.CONTAINER])
    rack.cards.set_not_reported(0, "processes")
    await rack.look()
    rack.run(0, memory_mib=30_000)
    await rack.look()
    waiting = await lab.request(await lab.agent())
    assert waiting.state is Standing.QUEUED
    assert (
        "29.3 GiB used by a process that cannot be named (its host agent runs in a container; started with `--pid=host` it "
        "could name it)"
    ) in (waiting.reason or "")
    fixes = [check.fix for check in await warnings(lab)]
    assert (
        "Start it with the host's process numbers: `docker run --pid=host …`, or hostPID: true in Kubernetes." in fixes
    )


async def test_what_is_not_reported_is_said_once_for_the_host_with_what_it_costs(lab: Lab, home: Path) -> None:
    """Casebook C12."""
    rack = FakeRack(lab, home)
    for card in range(2):
        rack.run(card)
        rack.cards.set_not_reported(card, "utilisation", "process_memory")
    rack.cards.set_not_reported(1, "utilisation", "processes")
    await rack.look()
    assert [check.text for check in await warnings(lab)] == [
        "how much local/0 and local/1 is used is not reported: nobody is called idle there",
        "how much memory each process on local/0 holds is not reported: what an ignored one holds cannot be told from what "
        "somebody else does",
        "which processes use local/1 is not reported: other people's use shows by the memory that it takes, and cannot be named",
    ]


async def test_a_card_that_reports_neither_its_memory_nor_its_processes_is_never_taken_for_a_clear_one(
    lab: Lab, home: Path
) -> None:
    """Casebook C12: N/A is unknown."""
    rack = FakeRack(lab, home)
    rack.run(0)
    rack.cards.set_not_reported(0, "used_mib", "processes")
    lane, _ = await rack.look()
    assert lane.state is CardState.BLIND
    assert "its driver reports neither its memory nor its processes" in lane.say
    assert (await lab.request(await lab.agent(), device="0")).state is Standing.QUEUED


async def test_more_limits_than_there_can_be_are_refused_with_their_survey(lab: Lab) -> None:
    host = await lab.host()
    for limits in (["x"] * 100, ["x" * 1000], [""]):
        with pytest.raises(MalformedInput):
            await host.survey(limits=limits)
    await host.survey(limits=["from_the_future"])
    assert await warnings(lab) == []
