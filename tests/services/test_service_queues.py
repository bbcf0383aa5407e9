import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of, ticket_of
from support.rows import Sql
from warploom.domain.etas import EtaWord
from warploom.domain.identifiers import LeaseId
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer


async def wait_in_line(lab: Lab, *wishes: tuple[str, dict[str, object]]) -> dict[str, TicketAnswer]:
    """Let one agent after the other ask; the names of the agents are those of their jobs."""
    return {name: await lab.request(await lab.agent(name), name, **wish) for name, wish in wishes}  # type: ignore[arg-type]


async def places(lab: Lab, card: int = 0) -> list[str]:
    lane = (await lab.app.cards.survey()).hosts[0].cards[card]
    assert [place.place for place in lane.queue] == list(range(1, len(lane.queue) + 1))
    return [place.title for place in lane.queue]


async def holders(lab: Lab) -> list[str | None]:
    lanes = (await lab.app.cards.survey()).hosts[0].cards
    return [lane.holder.title if lane.holder else None for lane in lanes]


async def busy(lab: Lab, cards: int = 1, **wish: object) -> tuple[LabHost, Actor, list[LeaseId]]:
    host = await lab.host(cards=cards, interval=3_000)
    holder = await lab.agent("holder")
    leases = [
        await lab.hold(holder, str(card), purpose=f"hold {card}", **wish)  # type: ignore[arg-type]
        for card in range(cards)
    ]
    return host, holder, leases


async def test_a_queue_is_first_come_first_served(lab: Lab) -> None:
    host, holder, leases = await busy(lab)
    await wait_in_line(lab, ("one", {}), ("two", {}), ("three", {}))
    assert await places(lab) == ["one", "two", "three"]
    lease = leases[0]
    for name in ("one", "two", "three"):
        await lab.app.leases.release(holder, lease)
        await host.survey()
        assert (await holders(lab)) == [name]
        holder = await lab.agent(name)
        me = await lab.app.tickets.me(holder, [])
        lease = lease_of(me.leases[0])


@pytest.mark.parametrize(("priority", "minutes"), [("p0", 60), ("p1", 30)])
async def test_a_priority_is_a_head_start_and_age_wins_in_the_end(
    lab: Lab, clock: Clock, priority: str, minutes: int
) -> None:
    await busy(lab)
    await wait_in_line(lab, ("old", {}))
    clock.advance(minutes=minutes + 1)
    await wait_in_line(lab, ("young", {}))
    clock.advance(minutes=minutes - 1)
    await wait_in_line(lab, ("urgent", {"priority": priority}))
    assert await places(lab) == ["old", "urgent", "young"]


async def test_head_starts_are_settings(open_app) -> None:  # type: ignore[no-untyped-def]
    lab = Lab(await open_app(p0_head_start_minutes=0))
    await busy(lab)
    await wait_in_line(lab, ("old", {}), ("urgent", {"priority": "p0"}))
    assert await places(lab) == ["old", "urgent"]


async def test_a_priority_takes_nothing_from_a_holder(lab: Lab) -> None:
    host, _, _ = await busy(lab)
    await wait_in_line(lab, ("urgent", {"priority": "p0"}))
    await host.survey()
    await lab.duties()
    assert await holders(lab) == ["train"]


async def test_two_cards_are_granted_together_or_not_at_all(lab: Lab) -> None:
    """Casebook C40."""
    host, holder, leases = await busy(lab, 2)
    waiting = await wait_in_line(lab, ("both", {"device": "0,1"}))
    await lab.app.leases.release(holder, leases[0])
    await host.survey()
    assert await holders(lab) == [None, "train"]
    await lab.app.leases.release(holder, leases[1])
    await host.survey()
    assert (await lab.explain(holder, waiting["both"])).cards == ["local/0", "local/1"]


async def test_the_head_holds_a_clear_card_for_the_rest_of_its_need(lab: Lab) -> None:
    """Casebook C40."""
    host, holder, leases = await busy(lab, 2)
    waiting = await wait_in_line(lab, ("both", {"device": "0,1"}), ("one", {"device": "0"}))
    await lab.app.leases.release(holder, leases[0])
    await host.survey()
    one = await lab.explain(holder, waiting["one"])
    assert (one.state, one.place) == (Standing.QUEUED, 2)
    assert one.reason == "ahead of you: T-3 'both'"


async def test_a_bounded_run_that_ends_before_the_head_could_start_fills_the_gap(lab: Lab) -> None:
    host, holder, leases = await busy(lab, 2, minutes=60)
    waiting = await wait_in_line(
        lab,
        ("both", {"device": "0,1"}),
        ("unbounded", {"device": "0"}),
        ("long", {"device": "0", "minutes": 70}),
        ("short", {"device": "0", "minutes": 50}),
    )
    await lab.app.leases.release(holder, leases[0])
    await host.survey()
    assert await holders(lab) == ["short", "train"]
    assert (await lab.explain(holder, waiting["both"])).place == 1


async def test_nothing_fills_the_gap_while_nobody_knows_how_long_it_is(lab: Lab) -> None:
    host, holder, leases = await busy(lab, 2)
    await wait_in_line(lab, ("both", {"device": "0,1"}), ("short", {"device": "0", "minutes": 1}))
    await lab.app.leases.release(holder, leases[0])
    await host.survey()
    assert await holders(lab) == [None, "train"]


async def test_nothing_fills_a_gap_that_a_settling_card_is_about_to_close(lab: Lab) -> None:
    host, holder, leases = await busy(lab, 3, minutes=60)
    waiting = await wait_in_line(lab, ("two", {"device": "any", "cards": 2}), ("short", {"device": "0", "minutes": 50}))
    await lab.app.leases.release(holder, leases[0])
    host.end(1, held_mib=20_000)
    await lab.app.leases.release(holder, leases[1])
    await host.survey()
    assert await holders(lab) == [None, None, "train"]
    host.end(1)
    await host.survey()
    assert (await lab.explain(holder, waiting["two"])).cards == ["local/0", "local/1"]


async def test_a_ticket_that_a_drained_card_keeps_waiting_holds_no_other_card(lab: Lab) -> None:
    host, holder, leases = await busy(lab, 2)
    operator = await lab.operator()
    await lab.app.cards.drain(operator, "local/1", None, preview=False)
    waiting = await wait_in_line(lab, ("both", {"device": "0,1"}), ("one", {"device": "0"}))
    await lab.app.leases.release(holder, leases[0])
    await host.survey()
    assert await holders(lab) == ["one", "train"]
    both = await lab.explain(holder, waiting["both"])
    assert both.starts is not None
    assert both.starts.word is EtaWord.UNKNOWN


async def test_two_tickets_for_the_same_two_cards_are_served_one_after_the_other(lab: Lab) -> None:
    """Casebook C40."""
    host, holder, leases = await busy(lab, 2)
    waiting = await wait_in_line(lab, ("first", {"device": "0,1"}), ("second", {"device": "1,0"}))
    for lease in leases:
        await lab.app.leases.release(holder, lease)
    await host.survey()
    first = await lab.explain(holder, waiting["first"])
    assert first.state is Standing.OFFERED
    assert (await lab.explain(holder, waiting["second"])).state is Standing.QUEUED
    await lab.app.leases.release(await lab.agent("first"), lease_of(first))
    await host.survey()
    assert (await lab.explain(holder, waiting["second"])).cards == ["local/0", "local/1"]


async def test_leaving_the_queue_lets_the_others_move_up_and_frees_what_was_held(lab: Lab, sql: Sql) -> None:
    host, holder, leases = await busy(lab, 2)
    waiting = await wait_in_line(lab, ("both", {"device": "0,1"}), ("one", {"device": "0"}))
    await lab.app.leases.release(holder, leases[0])
    await host.survey()
    left = await lab.app.tickets.leave(await lab.agent("both"), ticket_of(waiting["both"]))
    assert (left.state, left.reason) == (Standing.ENDED, "left the queue")
    assert await holders(lab) == ["one", "train"]
    assert await sql.fetchval("select count(*) from queue") == 0


async def test_leaving_twice_is_success(lab: Lab, sql: Sql) -> None:
    await busy(lab)
    waiting = await wait_in_line(lab, ("one", {}))
    mine = await lab.agent("one")
    for _ in range(2):
        assert (await lab.app.tickets.leave(mine, ticket_of(waiting["one"]))).state is Standing.ENDED
    assert await sql.fetchval("select count(*) from event where kind = 'ticket.left'") == 1


async def test_a_ticket_that_stands_in_no_queue_is_put_back_at_its_age(lab: Lab, sql: Sql) -> None:
    await busy(lab)
    await wait_in_line(lab, ("one", {}), ("two", {}))
    await sql.execute("delete from queue where task_id = 2")
    assert await places(lab) == ["two"]
    await lab.duties()
    assert await places(lab) == ["one", "two"]


async def test_a_long_queue_counts_all_and_shows_the_first_five(lab: Lab) -> None:
    await busy(lab)
    await wait_in_line(lab, *((f"job-{number}", {}) for number in range(9)))
    rack = await lab.app.cards.survey()
    lane = rack.hosts[0].cards[0]
    assert (lane.waiting, len(lane.queue), rack.waiting) == (9, 5, 9)


async def test_counts_shown_are_those_of_the_rows_that_gate(lab: Lab, clock: Clock, sql: Sql) -> None:
    """Casebook C27."""
    host, holder, leases = await busy(lab, 2)
    await wait_in_line(lab, ("one", {"device": "any"}), ("two", {"device": "0"}), ("both", {"device": "0,1"}))
    clock.advance(minutes=3)
    for lease in (None, *leases):
        if lease is not None:
            await lab.app.leases.release(holder, lease)
            await host.survey()
        rack = await lab.app.cards.survey()
        ready = await sql.fetchval("select count(*) from task where state = 'ready'")
        assert rack.waiting == ready
        for lane in rack.hosts[0].cards:
            rows = await sql.fetchval(
                "select count(*) from queue join card on card.id = card_id where uuid = $1", lane.uuid
            )
            assert lane.waiting == rows == len(lane.queue)
