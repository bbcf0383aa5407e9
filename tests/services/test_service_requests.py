import asyncio
from datetime import timedelta

import pytest

from support.databases import Clock
from support.lab import Lab, lease_of
from support.rows import Sql, whole_database
from warploom.domain.errors import Impossible, NotFound
from warploom.domain.etas import EtaWord
from warploom.domain.standings import Standing, TicketAnswer


def eta_of(answer: TicketAnswer) -> tuple[str, EtaWord]:
    assert answer.starts is not None
    return answer.starts.text, answer.starts.word


async def test_a_free_card_is_granted_at_once_with_all_its_holder_needs(lab: Lab, sql: Sql) -> None:
    await lab.host()
    answer = await lab.request(await lab.agent(), "train bert", "0")
    assert answer.state is Standing.ACTIVE
    assert (answer.ticket, answer.lease, answer.cards) == ("T-1", "L-1", ["local/0"])
    assert answer.export == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-local-0000",
        "WARPLOOM_LEASE": "L-1",
        "WARPLOOM_URL": "http://127.0.0.1:8765",
    }
    assert answer.expires_at is not None
    left = answer.expires_at - await sql.fetchval("select clock_now()")
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)
    assert 'gpu_release("L-1")' in answer.next


async def test_exports_name_the_index_on_request(lab: Lab) -> None:
    await lab.host()
    answer = await lab.request(await lab.agent(), device="1", env_style="index")
    assert answer.export is not None
    assert answer.export["CUDA_VISIBLE_DEVICES"] == "1"


async def test_several_cards_are_held_by_one_lease(lab: Lab) -> None:
    await lab.host(cards=3)
    answer = await lab.request(await lab.agent(), device="2,0")
    assert answer.cards == ["local/0", "local/2"]
    assert answer.export is not None
    assert answer.export["CUDA_VISIBLE_DEVICES"] == "GPU-local-0000,GPU-local-0002"


async def test_a_busy_card_means_a_place_in_its_queue_with_one_reason_and_a_free_card_is_only_told(lab: Lab) -> None:
    """Casebook C42."""
    await lab.host()
    await lab.request(await lab.agent("claude-1"), "train bert", "0")
    answer = await lab.request(await lab.agent("claude-2"), "eval sweep", "0")
    assert answer.state is Standing.QUEUED
    assert (answer.lease, answer.export, answer.place, answer.cards) == (None, None, 1, ["local/0"])
    assert answer.reason == "local/0 is held by L-1 'train bert' (claude-1), free at an unknown time"
    assert answer.also_free == ["local/1"]
    assert "warploom wait T-2" in answer.next
    assert "Do not use another card" in answer.next


async def test_each_ticket_has_its_place_and_says_who_is_ahead(lab: Lab) -> None:
    await lab.host()
    await lab.request(await lab.agent("claude-1"), "train", "0")
    await lab.request(await lab.agent("claude-2"), "eval", "0")
    answer = await lab.request(await lab.agent("codex-1"), "repro", "0")
    assert answer.place == 2
    assert "ahead of you: T-2 'eval'" in answer.chain
    assert any(line.startswith("T-2 'eval' (claude-2), waiting") for line in answer.chain)


async def test_a_start_is_unknown_when_nobody_said_anything(lab: Lab) -> None:
    await lab.host()
    await lab.hold(await lab.agent("claude-1"))
    answer = await lab.request(await lab.agent("claude-2"))
    assert eta_of(answer) == ("unknown", EtaWord.UNKNOWN)


async def test_a_start_is_declared_when_the_holder_said_how_long(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=600)
    await lab.hold(await lab.agent("claude-1"), minutes=20)
    answer = await lab.request(await lab.agent("claude-2"))
    assert eta_of(answer) == ("~20 min", EtaWord.DECLARED)
    assert (
        answer.reason
        == "local/0 is held by L-1 'train' (claude-1), free in ~20 min, declared from its holder's own estimate"
    )
    clock.advance(minutes=21)
    answer = await lab.explain(await lab.agent("claude-2"), answer)
    assert eta_of(answer) == ("unknown", EtaWord.UNKNOWN)
    assert answer.reason is not None
    assert "1 min past the end it declared" in answer.reason


async def test_a_start_is_measured_once_the_holder_reports_steps(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=600)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder, minutes=500)
    await lab.app.leases.report(lease, 0, 600, holder)
    clock.advance(minutes=1)
    await lab.app.leases.report(lease, 60, 600, holder)
    answer = await lab.request(await lab.agent("claude-2"))
    text, word = eta_of(answer)
    assert word is EtaWord.MEASURED
    assert text == "8–10 min"
    assert answer.reason is not None
    assert "measured from its step rate" in answer.reason


async def test_a_chain_is_only_as_good_as_its_weakest_link(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=600)
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    await lab.app.leases.report(lease, 0, 600, holder)
    clock.advance(minutes=1)
    await lab.app.leases.report(lease, 60, 600, holder)
    first = await lab.request(await lab.agent("claude-2"), minutes=20)
    second = await lab.request(await lab.agent("claude-3"))
    third = await lab.request(await lab.agent("claude-4"))
    assert eta_of(first)[1] is EtaWord.MEASURED
    assert eta_of(second) == ("28–30 min", EtaWord.DECLARED)
    assert eta_of(third) == ("unknown", EtaWord.UNKNOWN)


async def test_the_first_promise_is_kept_to_be_compared_with_what_came(lab: Lab, sql: Sql) -> None:
    await lab.host()
    await lab.hold(await lab.agent("claude-1"), minutes=20)
    answer = await lab.request(await lab.agent("claude-2"))
    await lab.explain(await lab.agent("claude-2"), answer)
    promised = await sql.fetchrow("select p90 - promised_at as wait, word from promise where task_id = 2")
    assert promised["word"] == "declared"
    assert timedelta(minutes=19) < promised["wait"] <= timedelta(minutes=20)


async def test_any_card_takes_one_that_is_free(lab: Lab) -> None:
    await lab.host()
    await lab.hold(await lab.agent("claude-1"), device="0")
    assert (await lab.request(await lab.agent("claude-2"), device="any")).cards == ["local/1"]


async def test_any_card_of_two_busy_ones_waits_for_whichever_is_free_first(lab: Lab) -> None:
    host = await lab.host()
    await lab.hold(await lab.agent("claude-1"), device="0", minutes=60)
    other = await lab.agent("claude-2")
    lease = await lab.hold(other, device="1", minutes=10)
    waiting = await lab.request(await lab.agent("claude-3"), device="any")
    assert eta_of(waiting) == ("~10 min", EtaWord.DECLARED)
    assert waiting.reason is not None
    assert waiting.reason.startswith("no fitting card is free: local/1 is held by L-2")
    await lab.app.leases.release(other, lease)
    await host.survey()
    assert (await lab.explain(other, waiting)).cards == ["local/1"]


async def test_cards_are_asked_for_by_model_and_by_memory(lab: Lab) -> None:
    await lab.host("rack-a", 2, model="NVIDIA GeForce RTX 3090", memory_gib=24)
    await lab.host("rack-b", 2, model="NVIDIA H200", memory_gib=141)
    agent = await lab.agent()
    assert (await lab.request(agent, "a", "any", model="3090")).cards == ["rack-a/0"]
    assert (await lab.request(agent, "b", "any", memory_gib=80)).cards == ["rack-b/0"]
    assert (await lab.request(agent, "c", "any", model="rtx 3090", memory_gib=20)).cards == ["rack-a/1"]


async def test_several_cards_are_asked_for_of_one_host(lab: Lab) -> None:
    await lab.host("rack-a", 1)
    await lab.host("rack-b", 2)
    assert (await lab.request(await lab.agent(), device="any", cards=2)).cards == ["rack-b/0", "rack-b/1"]


async def test_what_can_never_be_had_is_refused_at_once_and_leaves_nothing(lab: Lab, sql: Sql) -> None:
    """Casebook C39."""
    await lab.host()
    agent = await lab.agent()
    before = await whole_database(sql)
    for device, wish, most in (
        ("any", {"memory_gib": 200}, "Ask for at most 141 GiB"),
        ("any", {"cards": 3}, "Ask for at most 2"),
        ("any", {"model": "B300"}, "NVIDIA H200"),
        ("0", {"memory_gib": 200}, "Ask for at most that"),
    ):
        with pytest.raises(Impossible) as refusal:
            await lab.request(agent, "train", device, **wish)
        assert most in refusal.value.next_step
    for device in ("7", "rack/0", "GPU-unknown-0000"):
        with pytest.raises(NotFound, match="There is no card") as missing:
            await lab.request(agent, "train", device)
        assert "local/0 and local/1" in missing.value.next_step
    assert await whole_database(sql) == before


async def test_without_a_host_every_request_is_refused(lab: Lab) -> None:
    with pytest.raises(Impossible, match="No host has reported a card"):
        await lab.request(await lab.agent())


async def test_asking_again_for_the_same_purpose_returns_the_same_ticket(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    first = await lab.request(agent, "train", purpose="nightly")
    again = await lab.request(agent, "train it again", "1", purpose="nightly")
    assert (again.ticket, again.lease, again.cards) == (first.ticket, first.lease, first.cards)
    assert (first.deduplicated, again.deduplicated) == (False, True)
    assert await sql.fetchval("select count(*) from task") == 1


async def test_asking_again_while_waiting_keeps_the_place(lab: Lab) -> None:
    await lab.host()
    await lab.hold(await lab.agent("claude-1"))
    mine = await lab.agent("claude-2")
    first = await lab.request(mine, "eval")
    await lab.request(await lab.agent("claude-3"), "repro")
    again = await lab.request(mine, "eval")
    assert (again.ticket, again.place, again.state, again.deduplicated) == (first.ticket, 1, Standing.QUEUED, True)


async def test_another_agent_with_the_same_purpose_has_a_ticket_of_its_own(lab: Lab) -> None:
    await lab.host(cards=3)
    tickets = [
        await lab.request(await lab.agent("claude-1"), device="any", purpose="nightly"),
        await lab.request(await lab.agent("claude-2"), device="any", purpose="nightly"),
    ]
    assert len({ticket.ticket for ticket in tickets}) == 2


async def test_a_purpose_may_be_asked_for_again_once_it_has_ended(lab: Lab) -> None:
    host = await lab.host()
    agent = await lab.agent()
    first = await lab.request(agent, purpose="nightly")
    await lab.app.leases.release(agent, lease_of(first))
    await host.survey()
    second = await lab.request(agent, purpose="nightly")
    assert (second.ticket, second.state, second.deduplicated) == ("T-2", Standing.ACTIVE, False)


async def test_twenty_equal_requests_at_once_make_one_ticket_and_one_lease(lab: Lab, sql: Sql) -> None:
    await lab.host()
    agent = await lab.agent()
    answers = await asyncio.gather(*(lab.request(agent, "train", purpose="nightly") for _ in range(20)))
    assert {answer.ticket for answer in answers} == {answers[0].ticket}
    assert sum(not answer.deduplicated for answer in answers) == 1
    assert await sql.fetchval("select count(*) from task") == 1
    assert await sql.fetchval("select count(*) from lease") == 1


async def test_a_card_with_a_queue_is_not_given_to_a_newcomer(lab: Lab) -> None:
    host = await lab.host()
    holder = await lab.agent("claude-1")
    lease = await lab.hold(holder)
    first = await lab.request(await lab.agent("claude-2"))
    await lab.app.leases.release(holder, lease)
    newcomer = await lab.request(await lab.agent("claude-3"))
    assert newcomer.place == 2
    await host.survey()
    assert (await lab.explain(holder, first)).state is Standing.OFFERED
    assert (await lab.explain(holder, newcomer)).state is Standing.QUEUED


async def test_me_tells_what_is_held_and_waited_for(lab: Lab) -> None:
    await lab.host()
    await lab.hold(await lab.agent("codex-1"), device="1")
    agent = await lab.agent()
    assert "You hold nothing" in (await lab.app.tickets.me(agent, [])).next
    held = await lab.request(agent, "train", "0")
    waiting = await lab.request(agent, "eval", "1")
    me = await lab.app.tickets.me(agent, ["a line"])
    assert (me.agent, me.project, me.notices) == ("claude-1", "default", ["a line"])
    assert [answer.lease for answer in me.leases] == [held.lease]
    assert [answer.ticket for answer in me.tickets] == [waiting.ticket]
    assert me.leases[0].export == held.export
