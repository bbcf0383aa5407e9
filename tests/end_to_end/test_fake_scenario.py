"""A scenario is played against a whole running stack: the pool follows what happens to the cards."""

from collections.abc import Generator
from pathlib import Path

import pytest
from localstack import LocalStack, local_stack

from support.serving import eventually

SCENARIO = """
name: bob-comes-and-goes
sentence: Somebody else uses the first card for a few seconds.
cards: 2
steps:
  - at: 0s
    action: occupy
    args: {card: 0, user: bob, command: python notebook.py, mib: 40000}
  - at: 4s
    action: free
    args: {card: 0}
"""


@pytest.fixture(scope="module")
def stack() -> Generator[LocalStack]:
    with local_stack(foreign_quiet_seconds=0.5) as running:
        yield running


def conditions(stack: LocalStack, card: str) -> list[str]:
    """Return what the event log says of a card, oldest first."""
    events = stack.anybody.get("/events", limit=200)["events"]
    return [event["text"] for event in events if event["kind"] == "card.condition" and card in event["text"]]


def test_a_card_that_a_scenario_takes_leaves_the_pool_and_comes_back(stack: LocalStack, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    agent = stack.caller("patient")

    playing = stack.command("fake", "play", str(path))
    eventually(lambda: stack.lane(0)["state"] == "foreign")
    answer = agent.request(device="0")
    status, printed, said = playing.finish()
    lease = eventually(lambda: agent.get("/me")["leases"])[0]["lease"]

    assert (status, said) == (0, "")
    assert "card 0: bob's 'python notebook.py' uses 39.1 GiB as pid 5000000" in printed
    assert answer["state"] == "queued"
    assert "bob" in answer["reason"]
    assert any("python notebook.py" in text for text in conditions(stack, "local/0"))
    assert conditions(stack, "local/1") == []
    agent.release(lease)
    stack.until_clear()
    stack.assert_whole()


def test_a_card_that_is_lost_by_hand_is_found_again(stack: LocalStack) -> None:
    assert stack.command("fake", "lose", "local/1").finish()[0] == 0
    eventually(lambda: stack.lane(1)["state"] == "lost")
    assert stack.lane(0)["state"] == "free"

    assert stack.command("fake", "find", "local/1").finish()[0] == 0
    stack.until_clear()
