"""A holder who hardly uses its card while others wait: seen by everybody, told once, and left alone (casebook C28)."""

import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of
from support.rows import Sql, whole_database
from warploom.domain.hosts import CardFault
from warploom.domain.identifiers import LeaseId
from warploom.domain.leases import Label
from warploom.domain.standings import Standing

ALMOST, LONG = 590, 660


async def use(host: LabHost, percent: int | None) -> None:
    host.report(0, utilisation=percent)
    await host.survey()


async def labels_of(lab: Lab) -> list[Label]:
    holder = (await lab.app.cards.survey()).hosts[0].cards[0].holder
    assert holder is not None
    return holder.labels


async def stay(lab: Lab, clock: Clock, held: LeaseId, seconds: float) -> None:
    """Let time pass in which the holder shows that it is there."""
    clock.advance(seconds=seconds)
    await lab.app.leases.extend(await lab.agent(), held, 60, "still here")


async def test_an_idle_holder_is_labelled_told_once_and_keeps_its_card(lab: Lab, clock: Clock) -> None:
    host = await lab.host()
    agent, other = await lab.agent(), await lab.agent("claude-2")
    held = lease_of(await lab.request(agent, "train"))
    waiting = await lab.request(other, "eval")
    await use(host, 0)
    await stay(lab, clock, held, ALMOST)
    await use(host, 4)
    assert (await labels_of(lab), await lab.app.messages.unread(agent)) == ([], [])
    clock.advance(seconds=LONG - ALMOST)
    await use(host, 0)
    await use(host, 0)
    assert await labels_of(lab) == [Label.IDLE]
    assert "hardly used for 11 min" in ((await lab.explain(other, waiting)).reason or "")
    (told,) = await lab.app.messages.unread(agent)
    assert told.text == (
        "local/0, which you hold with L-1 'train', has hardly been used for 10 min, and 1 ticket waits for it. "
        'Nothing is taken from you; gpu_release(lease="L-1", keep_place=true) lets the first of them go and keeps your place '
        "behind it."
    )


async def test_a_card_that_is_used_again_begins_anew(lab: Lab, clock: Clock) -> None:
    host = await lab.host()
    agent = await lab.agent()
    held = lease_of(await lab.request(agent, "train"))
    await lab.request(await lab.agent("claude-2"), "eval")
    await use(host, 0)
    await stay(lab, clock, held, ALMOST)
    await use(host, 80)
    await use(host, 0)
    await stay(lab, clock, held, ALMOST)
    await use(host, 0)
    assert (await labels_of(lab), await lab.app.messages.unread(agent)) == ([], [])


@pytest.mark.parametrize("percent", [None, 5, 100])
async def test_what_is_not_reported_is_never_idle(lab: Lab, clock: Clock, percent: int | None) -> None:
    """Casebook C12: N/A is unknown, never 0."""
    host = await lab.host()
    agent = await lab.agent()
    held = lease_of(await lab.request(agent, "train"))
    await lab.request(await lab.agent("claude-2"), "eval")
    await use(host, percent)
    await stay(lab, clock, held, LONG)
    await use(host, percent)
    assert (await labels_of(lab), await lab.app.messages.unread(agent)) == ([], [])


async def test_nobody_is_told_while_nobody_waits(lab: Lab, clock: Clock) -> None:
    host = await lab.host()
    agent = await lab.agent()
    held = lease_of(await lab.request(agent, "train"))
    await use(host, 0)
    await stay(lab, clock, held, LONG)
    await use(host, 0)
    assert (await labels_of(lab), await lab.app.messages.unread(agent)) == ([], [])
    await lab.request(await lab.agent("claude-2"), "eval")
    await use(host, 0)
    assert await labels_of(lab) == [Label.IDLE]
    assert len(await lab.app.messages.unread(agent)) == 1


async def test_a_look_that_failed_is_no_use_of_the_card(lab: Lab, clock: Clock) -> None:
    host = await lab.host()
    agent = await lab.agent()
    held = lease_of(await lab.request(agent, "train"))
    await lab.request(await lab.agent("claude-2"), "eval")
    await use(host, 0)
    await stay(lab, clock, held, LONG)
    host.report(0, utilisation=None)
    host.fail(0, CardFault.BLIND)
    await host.survey()
    host.fail(0, None)
    await use(host, 0)
    assert await labels_of(lab) == [Label.IDLE]


async def test_a_card_handed_on_is_not_idle_by_its_last_holder(lab: Lab, clock: Clock) -> None:
    host = await lab.host()
    agent, other = await lab.agent(), await lab.agent("claude-2")
    held = lease_of(await lab.request(agent, "train"))
    waiting = await lab.request(other, "eval")
    await lab.request(await lab.agent("claude-3"), "plot")
    await use(host, 0)
    await stay(lab, clock, held, LONG)
    await use(host, 0)
    await lab.app.leases.release(agent, held)
    await host.survey()
    offered = lease_of(await lab.explain(other, waiting))
    await lab.app.leases.extend(other, offered, 60, "mine now")
    await use(host, 0)
    assert (await labels_of(lab), await lab.app.messages.unread(other)) == ([], [])


class TestReleasingWithAPlaceKept:
    async def test_the_first_who_waits_goes_before_and_the_others_after(self, lab: Lab, sql: Sql) -> None:
        host = await lab.host(cards=1)
        agent, second, third = [await lab.agent(name) for name in ("claude-1", "claude-2", "claude-3")]
        mine = await lab.request(agent, "train")
        first, last = await lab.request(second, "eval"), await lab.request(third, "sweep")
        answer = await lab.app.leases.release(agent, lease_of(mine), keeps_place=True)
        assert answer.next.startswith("T-1 keeps place 2; run `warploom wait T-1`")
        await host.survey()
        assert (await lab.explain(second, first)).state is Standing.OFFERED
        assert [(await lab.explain(who, what)).place for who, what in ((agent, mine), (third, last))] == [1, 2]
        await lab.app.leases.release(second, lease_of(await lab.explain(second, first)))
        await host.survey()
        assert (await lab.explain(agent, mine)).state is Standing.OFFERED
        assert await sql.fetchval("select count(*) from event where kind = 'ticket.yielded'") == 1

    async def test_saying_it_twice_is_success_and_changes_nothing(self, lab: Lab, sql: Sql) -> None:
        await lab.host(cards=1)
        agent = await lab.agent()
        held = lease_of(await lab.request(agent, "train"))
        await lab.request(await lab.agent("claude-2"), "eval")
        await lab.app.leases.release(agent, held, keeps_place=True)
        before = await whole_database(sql)
        answer = await lab.app.leases.release(agent, held, keeps_place=True)
        assert answer.next == "It was released already; nothing to do."
        assert await whole_database(sql) == before

    async def test_where_nobody_waits_there_is_no_place_to_keep(self, lab: Lab) -> None:
        await lab.host(cards=1)
        agent = await lab.agent()
        mine = await lab.request(agent, "train")
        answer = await lab.app.leases.release(agent, lease_of(mine), keeps_place=True)
        assert answer.next.startswith("Nobody waits, so there is no place to keep")
        assert (await lab.explain(agent, mine)).state is Standing.ENDED

    async def test_with_two_cards_the_first_of_each_queue_goes_before(self, lab: Lab) -> None:
        await lab.host(cards=2)
        agent = await lab.agent()
        mine = await lab.request(agent, "train", device="any", cards=2)
        for number, device in enumerate(("0", "1", "1"), 2):
            await lab.request(await lab.agent(f"claude-{number}"), f"job {number}", device=device)
        await lab.app.leases.release(agent, lease_of(mine), keeps_place=True)
        assert [ahead for ahead in (await lab.explain(agent, mine)).chain if "ahead of you" in ahead] == [
            "ahead of you: T-2 'job 2' and T-3 'job 3'"
        ]
