"""A card is its UUID: what the driver numbers anew keeps its lease, its queue and its history."""

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of
from support.rows import Sql
from warploom.domain.health import Check, Word
from warploom.domain.standings import Standing


async def renumber(host: LabHost, *order: int) -> None:
    for place, index in enumerate(order):
        host.report(place, index=index)
    await host.survey()


async def told_of(lab: Lab, card: str) -> list[Check]:
    return [check for check in await lab.app.health.doctor() if check.name == card]


async def test_a_lease_and_a_queue_follow_their_card_when_indices_change(lab: Lab) -> None:
    """Casebook C02: "0" is an alias, resolved when the ticket is made and pinned to the UUID."""
    host = await lab.host()
    agent, other = await lab.agent(), await lab.agent("claude-2")
    held = await lab.request(agent, "train", device="0")
    waiting = await lab.request(other, "eval", device="0")
    await renumber(host, 1, 0)
    there = await lab.explain(other, waiting)
    assert there.state is Standing.QUEUED
    assert there.reason is not None
    assert there.reason.startswith("local/1 is held by L-1 'train'")
    await lab.app.leases.release(agent, lease_of(held))
    await host.survey()
    offered = await lab.explain(other, waiting)
    assert offered.state is Standing.OFFERED
    assert offered.export is not None
    assert offered.export["CUDA_VISIBLE_DEVICES"] == "GPU-local-0000"


async def test_what_is_called_by_its_number_after_that_is_the_card_of_that_number(lab: Lab) -> None:
    host = await lab.host()
    await renumber(host, 1, 0)
    granted = await lab.request(await lab.agent(), device="0")
    assert granted.export is not None
    assert granted.export["CUDA_VISIBLE_DEVICES"] == "GPU-local-0001"


async def test_doctor_tells_for_a_week_what_a_card_was_called_before(lab: Lab, sql: Sql, clock: Clock) -> None:
    host = await lab.host()
    assert await told_of(lab, "local/0") == []
    await renumber(host, 1, 0)
    await host.survey()
    (told,) = await told_of(lab, "local/1")
    assert told.word is Word.WARN
    assert told.text.startswith("it was local/0 until ")
    assert told.fix == "Call it local/1 from now on, or by its UUID."
    said = await sql.fetch(
        "select facts->>'before' as before, facts->>'cards' as now from event where kind = 'card.moved'"
    )
    assert sorted((row["before"], row["now"]) for row in said) == [("local/0", "local/1"), ("local/1", "local/0")]
    clock.advance(seconds=8 * 86_400)
    await host.survey()
    assert await told_of(lab, "local/1") == []
