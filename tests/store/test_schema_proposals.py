"""What the schema itself holds of proposals, whatever a client writes."""

from typing import Any

import asyncpg
import pytest

from support.rows import Sql, add_card, add_host, add_session, add_ticket, claim
from warploom.domain.proposals import MOVES, ProposalState

KINDS: dict[str, dict[str, Any]] = {
    "release_at_step": {"lease_id": 1, "task_id": 2, "at_step": 500},
    "swap": {"task_id": 2, "other_task_id": 3},
    "split_window": {"reservation_id": 1, "length": "10 minutes"},
}


@pytest.fixture
async def world(sql: Sql) -> Sql:
    """A lease (1) of agent 1, two tickets (2 and 3) of agent 2 and 1, and a reservation (1) of agent 1."""
    await add_session(sql, "claude-1")
    await add_session(sql, "claude-2")
    card = await add_card(sql, await add_host(sql))
    held = await add_ticket(sql, agent_id=1, session_id=1)
    await add_ticket(sql, agent_id=2, session_id=2)
    await add_ticket(sql, agent_id=1, session_id=1)
    await claim(sql, held, [card])
    await sql.execute(
        "insert into reservation (card_id, agent_id, starts_at, ends_at) values ($1, 1, now(), now() + interval '1 hour')",
        card,
    )
    return sql


async def add_proposal(sql: Sql, kind: str, **facts: Any) -> int:
    """Insert one from agent 2 to agent 1; keywords replace or add columns."""
    row = {"kind": kind, "project_id": 1, "proposer_id": 2, "partner_id": 1, "reason": "x"} | KINDS[kind] | facts
    row = {"expires_at": "tomorrow"} | row
    columns = ", ".join(row)
    values = ", ".join("null" if value is None else f"'{value}'" for value in row.values())
    return await sql.fetchval(f"insert into proposal ({columns}) values ({values}) returning id")


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_about_what_it_says_and_nothing_else(world: Sql, kind: str) -> None:
    await add_proposal(world, kind)
    spoilt: list[dict[str, Any]] = [{column: None} for column in KINDS[kind]]
    spoilt += [{"at_step": 5, "at_moment": "now"}, {"reason": ""}, {"partner_id": 2}, {"expires_at": "yesterday"}]
    spoilt += [others for other, others in KINDS.items() if other != kind]
    for facts in spoilt:
        with pytest.raises((asyncpg.CheckViolationError, asyncpg.NotNullViolationError)):
            await add_proposal(world, kind, **facts)


@pytest.mark.parametrize(
    "facts",
    [
        {"state": "accepted"},
        {"state": "accepted", "answered_at": "now", "closed_at": "now"},
        {"state": "declined", "closed_at": "now"},
        {"state": "declined", "answered_at": "now"},
        {"state": "kept", "closed_at": "now"},
        {"closed_at": "now"},
        {"answered_at": "now"},
        {"answer": "no"},
        {"due_at": "now"},
    ],
)
async def test_times_and_words_agree_with_the_state(world: Sql, facts: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await add_proposal(world, "release_at_step", **facts)


@pytest.mark.parametrize("kind", KINDS)
async def test_one_about_a_thing_is_open_between_two(world: Sql, kind: str) -> None:
    first = await add_proposal(world, kind)
    back: dict[str, Any] = {"proposer_id": 1, "partner_id": 2}
    if kind == "swap":
        back |= {"task_id": 3, "other_task_id": 2}
    for facts in ({}, back):
        with pytest.raises(asyncpg.UniqueViolationError):
            await add_proposal(world, kind, **facts)
    await world.execute("update proposal set state = 'lapsed', closed_at = now() where id = $1", first)
    await add_proposal(world, kind, **back)


async def test_a_lease_is_promised_to_one(world: Sql) -> None:
    await add_session(world, "claude-3")
    await add_proposal(world, "release_at_step", state="accepted", answered_at="now")
    with pytest.raises(asyncpg.UniqueViolationError):
        await add_proposal(world, "release_at_step", proposer_id=3, state="accepted", answered_at="now")


async def test_what_is_done_at_once_is_never_in_force(world: Sql) -> None:
    for kind in ("swap", "split_window"):
        with pytest.raises(asyncpg.CheckViolationError):
            await add_proposal(world, kind, state="accepted", answered_at="now")


def test_what_is_over_stays_as_it_is() -> None:
    over = [state for state, following in MOVES.items() if not following]
    assert set(over) == set(ProposalState) - {ProposalState.OPEN, ProposalState.ACCEPTED}
