"""The witness: a trigger in the database that notes each event with the machine's own time, past every jump of a clock."""

from datetime import datetime
from typing import Any

from faults.verdict import Grant
from support.databases import MOVABLE_CLOCK
from support.invariants import ask

_INSTALL = (
    """
    create table witness (
      id bigint generated always as identity primary key,
      at timestamptz not null default clock_timestamp(),
      kind text not null, task_id bigint, lease_id bigint, cards text[] not null, facts jsonb
    )
    """,
    """
    create function testify() returns trigger language plpgsql as $$
    begin
      insert into witness (kind, task_id, lease_id, cards, facts)
      values (new.kind, new.task_id, new.lease_id, array(select uuid from card where id = any(new.card_ids)), new.facts);
      return null;
    end $$
    """,
    "create trigger testify after insert on event for each row execute function testify()",
    *(statement for statement in MOVABLE_CLOCK.split(";") if statement.strip()),
)
_GRANTS = """
select lease_id, cards, at from witness where kind in ('lease.granted', 'lease.offered') order by id
"""
_STORY = """
select at, kind, lease_id, facts from witness where $1 = any(cards) and at between $2 and $3 order by id
"""


class Witness:
    """Reads what happened in a stack's database by the machine's own time."""

    def __init__(self, url: str) -> None:
        self._url = url
        for statement in _INSTALL:
            ask(url, statement)

    def grants(self) -> list[Grant]:
        """Return every grant and offer so far."""
        rows = ask(self._url, _GRANTS)
        return [Grant(f"L-{row['lease_id']}", tuple(row["cards"]), row["at"].timestamp()) for row in rows]

    def story(self, card: str, since: float, until: float) -> list[tuple[float, str]]:
        """Tell the events of a card within a time, each with when it was."""
        moments = [datetime.fromtimestamp(moment).astimezone() for moment in (since, until)]
        return [(row["at"].timestamp(), _told(row)) for row in ask(self._url, _STORY, card, *moments)]

    def jump(self, seconds: float) -> None:
        """Let the database's clock jump, for every connection at once."""
        ask(self._url, f"insert into moved_clock values (make_interval(secs => {seconds!r}))")


def _told(row: dict[str, Any]) -> str:
    lease = f" L-{row['lease_id']}" if row["lease_id"] else ""
    return f"{row['kind']}{lease} {row['facts']}"
