"""A holder who hardly uses its card while others wait: seen by everybody, told once, and left alone (casebook C28)."""

import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of
from warploom.domain.hosts import CardFault
from warploom.domain.identifiers import LeaseId
from warploom.domain.leases import Label

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
        'Nothing is taken from you; if you are done with it, gpu_release(lease="L-1") hands it on.'
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
