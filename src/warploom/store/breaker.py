"""The evidence against cards: memory errors, critical errors of the driver, and failures in a row."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from warploom.domain.breaker import MOST_FAILURES, CardFailure
from warploom.domain.identifiers import CardId, HostId
from warploom.store.database import Connection

_BREAK: Final[LiteralString] = """
update card
set service = 'quarantined', service_since = clock_now(),
  service_reason = ecc_errors - ecc_excused || ' memory error'
    || case when ecc_errors - ecc_excused = 1 then '' else 's' end || ' that could not be corrected'
where host_id = $1 and ecc_errors > ecc_excused and service <> 'quarantined'
returning id, service_reason
"""

# $3 is how long an Xid that was noted is not noted again.
_NOTE_XIDS: Final[LiteralString] = """
with noted as (
  select id, case when xids_noted_at > clock_now() - $3::interval then noted_xids else '{}' end as before from card where id = $1
), fresh as (
  select id, before, array(select unnest($2::int[]) except select unnest(before) order by 1) as xids from noted
)
update card
set noted_xids = (fresh.before || fresh.xids)[:32],
  xids_noted_at = case when fresh.before = '{}' then clock_now() else card.xids_noted_at end
from fresh
where card.id = fresh.id and fresh.xids <> '{}'
returning fresh.xids
"""

_FAILURES: Final[LiteralString] = "select id, failures from card where id = any($1::bigint[])"

_KEEP: Final[LiteralString] = "update card set failures = $2 where id = $1"

_SUSPECT: Final[LiteralString] = """
update card set suspicion = $2, suspected_at = clock_now(), awaits_probe = true
where id = $1 and suspicion is null and service <> 'quarantined'
returning id
"""


_ASK: Final[LiteralString] = "update card set awaits_probe = false where id = $1 and awaits_probe returning id"

_TRUST: Final[LiteralString] = """
update card set failures = '[]', suspicion = null, suspected_at = null, awaits_probe = false
where id = $1 and (suspicion is not null or failures <> '[]')
returning id
"""


async def break_faulty(conn: Connection, host: HostId) -> dict[CardId, str]:
    """Quarantine the cards of a host that count memory errors nobody has excused; return each with its reason."""
    return {CardId(row["id"]): row["service_reason"] for row in await conn.fetch(_BREAK, host)}


async def note_xids(conn: Connection, card: CardId, xids: Sequence[int], quiet: timedelta) -> list[int]:
    """Note what a card's driver told of; return what was not noted in the last `quiet` time yet."""
    return await conn.fetchval(_NOTE_XIDS, card, list(xids), quiet) or []


async def read_failures(conn: Connection, cards: Sequence[CardId]) -> dict[CardId, list[CardFailure]]:
    """Read the failures in a row that each card remembers, oldest first."""
    rows = await conn.fetch(_FAILURES, list(cards))
    return {CardId(row["id"]): [_failure(each) for each in row["failures"]] for row in rows}


async def keep_failures(conn: Connection, card: CardId, failures: Sequence[CardFailure]) -> None:
    """Let a card remember these failures; the latest, where there are very many."""
    kept = [asdict(each) | {"at": each.at.isoformat()} for each in failures[-MOST_FAILURES:]]
    await conn.execute(_KEEP, card, kept)


async def suspect(conn: Connection, card: CardId, evidence: str) -> bool:
    """Note that a card is suspect; False when it was so already, or is out of service for its faults."""
    return await conn.fetchval(_SUSPECT, card, evidence) is not None


async def note_probe(conn: Connection, card: CardId) -> bool:
    """Note that a suspect card is being probed; False when it was not to be."""
    return await conn.fetchval(_ASK, card) is not None


async def trust(conn: Connection, card: CardId) -> None:
    """Forget the failures of a card that has shown that it works."""
    await conn.execute(_TRUST, card)


def _failure(entry: dict[str, Any]) -> CardFailure:
    return CardFailure(
        lease=entry["lease"],
        job=entry["job"],
        at=datetime.fromisoformat(entry["at"]),
        words=entry["words"],
        cards=entry["cards"],
        signature=entry["signature"],
        is_certain=entry["is_certain"],
    )
