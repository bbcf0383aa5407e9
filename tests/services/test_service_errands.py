"""Errands: each reaches its host, outlives it, and is closed by an answer or by time."""

import asyncio

import pytest

from support.lab import Lab
from support.rows import Sql
from warploom.domain.errands import ErrandState, Fate, KillWish, Outcome, ProcessFate
from warploom.domain.errors import MalformedInput, NotFound
from warploom.domain.identifiers import ErrandId, LeaseId

DONE = Outcome([ProcessFate(5001, 77, Fate.ENDED)])


async def asked(lab: Lab) -> ErrandId:
    """An errand for `local`, which holds one lease."""
    await lab.host()
    lease = await lab.hold(await lab.agent())
    answer = await lab.app.errands.kill(await lab.operator(), lease, KillWish("why"), preview=False)
    assert answer.errand is not None
    return ErrandId(int(answer.errand[2:]))


async def later(sql: Sql, minutes: int) -> None:
    await sql.execute("update errand set expires_at = expires_at - make_interval(mins => $1)", minutes)


async def told(lab: Lab, *having: ErrandId) -> list[str]:
    return [each.errand for each in (await lab.app.hosts.orders("local", 0, having)).errands]


async def test_a_waiting_host_is_told_at_once(lab: Lab) -> None:
    host = await lab.host()
    lease = await lab.hold(await lab.agent())
    await host.survey()
    polling = asyncio.create_task(lab.app.hosts.orders("local", 30))
    while not lab.app.bus.health().listeners:
        await asyncio.sleep(0)
    await lab.app.errands.kill(await lab.operator(), lease, KillWish("why"), preview=False)
    async with asyncio.timeout(10):
        assert [each.errand for each in (await polling).errands] == ["E-1"]


async def test_what_a_host_has_in_hand_is_not_told_again(lab: Lab) -> None:
    errand = await asked(lab)
    assert await told(lab) == ["E-1"]
    assert await told(lab, errand) == []


async def test_a_host_agent_that_died_with_it_in_hand_gets_it_again(lab: Lab) -> None:
    errand = await asked(lab)
    await told(lab)
    assert (await lab.app.errands.wait(errand, 0)).state is ErrandState.TAKEN
    assert await told(lab) == ["E-1"]
    await lab.app.errands.answer("local", errand, DONE)
    assert await told(lab) == []


async def test_another_host_neither_hears_of_it_nor_may_answer(lab: Lab) -> None:
    errand = await asked(lab)
    await lab.host("rack-b")
    assert (await lab.app.hosts.orders("rack-b", 0)).errands == []
    with pytest.raises(NotFound, match="There is no errand E-1"):
        await lab.app.errands.answer("rack-b", errand, DONE)


async def test_who_waits_for_it_learns_of_the_answer_at_once(lab: Lab) -> None:
    errand = await asked(lab)
    waiting = asyncio.create_task(lab.app.errands.wait(errand, 30))
    while not lab.app.bus.health().listeners:
        await asyncio.sleep(0)
    await lab.app.errands.answer("local", errand, DONE)
    async with asyncio.timeout(10):
        assert (await waiting).is_success is True


async def test_one_that_nobody_answers_lapses_and_says_so(lab: Lab, sql: Sql) -> None:
    errand = await asked(lab)
    await later(sql, 3)
    view = await lab.app.errands.wait(errand, 30)
    assert (view.state, view.is_success) == (ErrandState.LAPSED, None)
    assert view.text == "local did not answer within 2 min; it is asked no more"
    assert (await lab.duties())["errand lapser"] == 1
    assert (await lab.duties())["errand lapser"] == 0
    assert await told(lab) == []
    events, _ = await lab.app.events.page(None, 1)
    assert events[-1].text == (
        "local did not answer in time: the end of the processes of L-1, which ada asked for, was not seen to"
    )


async def test_an_answer_that_comes_late_still_counts(lab: Lab, sql: Sql) -> None:
    errand = await asked(lab)
    await later(sql, 3)
    await lab.duties()
    await lab.app.errands.answer("local", errand, DONE)
    assert (await lab.app.errands.wait(errand, 0)).state is ErrandState.ANSWERED


async def test_after_a_lapse_it_can_be_asked_for_again(lab: Lab, sql: Sql) -> None:
    await asked(lab)
    await later(sql, 3)
    await lab.duties()
    again = await lab.app.errands.kill(await lab.operator(), LeaseId(1), KillWish("why"), preview=False)
    assert again.errand == "E-2"


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome([ProcessFate(0, 1, Fate.ENDED)]),
        Outcome([ProcessFate(2**40, 1, Fate.ENDED)]),
        Outcome([ProcessFate(1, -1, Fate.ENDED)]),
        Outcome([ProcessFate(1, 1, Fate.ENDED)] * 501),
    ],
    ids=["pid 0", "a large pid", "a start before boot", "too many"],
)
async def test_an_answer_with_numbers_that_cannot_be_is_refused(lab: Lab, outcome: Outcome) -> None:
    errand = await asked(lab)
    with pytest.raises(MalformedInput):
        await lab.app.errands.answer("local", errand, outcome)


async def test_names_in_an_answer_are_cleaned_and_cut(lab: Lab) -> None:
    errand = await asked(lab)
    outcome = Outcome([ProcessFate(1, 1, Fate.ENDED, "a\x1b[31m\nb" + "x" * 500, "")], problem="y" * 5000)
    view = await lab.app.errands.answer("local", errand, outcome)
    assert view.lines[0].startswith("a [31m bxxx")
    assert len(view.lines[0]) < 200
    assert len(view.text) < 600


async def test_old_ones_are_forgotten(lab: Lab, sql: Sql) -> None:
    errand = await asked(lab)
    await lab.app.errands.answer("local", errand, DONE)
    await sql.execute("update errand set asked_at = asked_at - interval '200 days'")
    await lab.duties()
    assert await sql.fetchval("select count(*) from errand") == 0
