"""What the people of a host say of its cards, from their `config.toml` through a real look to the server's judgement."""

from pathlib import Path

import pytest

from support.databases import Clock
from support.fakes import FakeRack
from support.lab import Lab
from warploom.domain.card_rules import CardRules
from warploom.domain.cards import CardState, Owner
from warploom.domain.standings import Standing


@pytest.fixture
def rack(lab: Lab, tmp_path: Path) -> FakeRack:
    """Two fake cards."""
    return FakeRack(lab, tmp_path / "home")


async def states(rack: FakeRack) -> list[CardState]:
    """Look at the cards, and return the state of each."""
    return [lane.state for lane in await rack.look()]


async def rules_told(rack: FakeRack) -> list[str]:
    """Return what the log says of rules, oldest first."""
    events, _ = await rack.lab.app.events.page(None, 100)
    return [event.text for event in events if event.kind.value == "card.rules"]


def monitor(rack: FakeRack, lease: str | None = None) -> None:
    rack.run(0, lease, user="root", command="dcgm-exporter -f")


async def test_an_ignored_process_stays_visible_and_keeps_nobody_away(rack: FakeRack) -> None:
    """Casebook C19."""
    rack.config.write_text('[cards."*"]\nignore = ["user:root"]\n')
    monitor(rack)
    lane, _ = await rack.look()
    assert (lane.state, lane.used_mib) == (CardState.FREE, 9000)
    assert [(each.owner, each.text) for each in lane.processes] == [
        (Owner.IGNORED, "dcgm-exporter -f (user root, ignored by a rule of its host, pid 5000000, 8.8 GiB)")
    ]
    assert (await rack.lab.request(await rack.lab.agent(), device="0")).state is Standing.ACTIVE


async def test_without_a_rule_it_takes_the_card_out_of_the_pool(rack: FakeRack) -> None:
    """Casebook C19."""
    monitor(rack)
    assert await states(rack) == [CardState.FOREIGN, CardState.FREE]


@pytest.mark.parametrize("rule", ["dcgm-exporter", "command:dcgm*"])
async def test_a_rule_holds_from_the_next_look_after_the_file_was_changed(
    rack: FakeRack, clock: Clock, rule: str
) -> None:
    monitor(rack)
    await rack.look()
    rack.config.write_text(f'[cards.0]\nignore = ["{rule}"]\n')
    lane, _ = await rack.look()
    assert "nobody is left whom its host does not ignore; back in the pool in 2 min" in lane.say
    clock.advance(minutes=3)
    assert await states(rack) == [CardState.FREE, CardState.FREE]


async def test_a_rule_of_one_card_does_not_hold_for_another(rack: FakeRack) -> None:
    rack.config.write_text(f'[cards.{rack.cards.uuid(1)}]\nignore = ["user:root"]\n')
    monitor(rack)
    assert await states(rack) == [CardState.FOREIGN, CardState.FREE]


async def test_the_memory_of_an_ignored_process_that_is_not_reported_is_never_taken_for_none(rack: FakeRack) -> None:
    """Casebook C12 and C19."""
    rack.config.write_text('[cards.0]\nignore = ["user:root"]\n')
    monitor(rack)
    rack.cards.set_not_reported(0, "process_memory")
    lane, _ = await rack.look()
    assert lane.state is CardState.FOREIGN
    assert "dcgm-exporter -f (user root, ignored by a rule of its host, pid 5000000, memory not reported)" in lane.say
    assert "or by a process that cannot be named" in lane.say


async def test_no_rule_covers_for_a_process_of_a_lease(rack: FakeRack) -> None:
    rack.config.write_text('[cards."*"]\nignore = ["user:root"]\n')
    await rack.look()
    lease = await rack.lab.hold(await rack.lab.agent(), "0")
    monitor(rack, f"L-{lease}")
    monitor(rack, "L-999")
    lane, _ = await rack.look()
    assert [each.owner for each in lane.processes] == [Owner.MEMBER, Owner.FOREIGN]


async def test_each_change_of_the_rules_is_in_the_event_log_once(rack: FakeRack) -> None:
    rack.config.write_text('[cards.0]\nweight = 2\nignore = ["user:root", "Xorg"]\n')
    await rack.look(times=2)
    rack.cards.set_lost(0)
    await rack.look()
    rack.config.write_text("")
    await rack.look()
    assert sorted(await rules_told(rack)) == [
        "local has other rules for local/0: weight 1, ignores nobody → weight 2, ignores user:root and Xorg",
        "local has other rules for local/0: weight 2, ignores user:root and Xorg → weight 1, ignores nobody",
    ]


async def test_a_look_that_cannot_tell_the_rules_changes_none(lab: Lab) -> None:
    host = await lab.host(cards=1)
    host.report(0, rules=CardRules(3.0, ["Xorg"]))
    await host.survey()
    host.report(0, rules=None)
    await host.survey()
    await host.survey(problem="the driver does not answer")
    (check,) = [check for check in await lab.app.health.doctor() if "ignores" in check.text]
    assert (check.name, check.text) == ("local/0", "weight 3, ignores Xorg: a rule of its host")


async def test_the_doctor_tells_the_rules_of_each_card_that_has_some(rack: FakeRack) -> None:
    rack.config.write_text('[cards.1]\nignore = ["user:root"]\n')
    await rack.look()
    told = [(check.name, check.text) for check in await rack.lab.app.health.doctor() if "ignores" in check.text]
    assert told == [("local/1", "weight 1, ignores user:root: a rule of its host")]


async def test_a_file_that_makes_no_sense_changes_nothing_and_is_logged_once(
    rack: FakeRack, caplog: pytest.LogCaptureFixture
) -> None:
    rack.config.write_text('[cards."*"]\nignore = ["user:root"]\n')
    monitor(rack)
    await rack.look()
    rack.config.write_text('[cards."*"]\nignore = ["usr:root"]\n')
    await rack.look()
    assert await states(rack) == [CardState.FREE, CardState.FREE]
    assert [record.getMessage() for record in caplog.records if "which is no rule" in record.getMessage()] == [
        f"cards.*.ignore in {rack.config} has 'usr:root', which is no rule. Write user:NAME, command:PATTERN, or a "
        "program's name. The rules that were read before stay in force."
    ]


async def test_any_takes_the_heaviest_free_card_and_a_lane_shows_its_weight(rack: FakeRack) -> None:
    assert [lane.weight for lane in await rack.look()] == [None, None]
    rack.config.write_text("[cards.1]\nweight = 2.5\n")
    assert [lane.weight for lane in await rack.look()] == [1.0, 2.5]
    answers = [await rack.lab.request(await rack.lab.agent(f"claude-{n}"), device="any") for n in (1, 2)]
    assert [answer.cards for answer in answers] == [["local/1"], ["local/0"]]
