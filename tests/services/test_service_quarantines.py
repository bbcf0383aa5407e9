"""Cards that are out of service for their faults: by the breaker's evidence or an operator's word, until they are cleared."""

import json
import re

import pytest

from support.databases import Clock
from support.lab import Lab, LabHost, lease_of
from support.rows import Sql, whole_database
from warploom.domain.cards import CardState, Service
from warploom.domain.errors import MalformedInput, NotAllowed
from warploom.domain.events import EventKind, tell
from warploom.domain.health import Word
from warploom.domain.hosts import CardFault
from warploom.domain.standings import Standing
from warploom.domain.xids import HARDWARE, say_xid


async def state_of(lab: Lab, index: int = 0) -> tuple[CardState, str]:
    lane = (await lab.app.cards.survey()).hosts[0].cards[index]
    return lane.state, lane.say


async def count(host: LabHost, errors: int | None) -> None:
    host.report(0, ecc_errors=errors)
    await host.survey()


class TestMemoryErrors:
    async def test_a_card_that_counts_one_is_kept_out_with_its_evidence_and_its_queue(self, lab: Lab, sql: Sql) -> None:
        """Casebook C08: a card with ECC errors is fed nothing more, and the others are."""
        host = await lab.host()
        await count(host, 1)
        await count(host, 1)
        waiting = await lab.request(await lab.agent())
        elsewhere = await lab.request(await lab.agent("claude-2"), device="1")
        assert waiting.state is Standing.QUEUED
        assert waiting.reason is not None
        assert "local/0 is quarantined since" in waiting.reason
        assert waiting.reason.endswith("1 memory error that could not be corrected")
        assert elsewhere.state is Standing.ACTIVE
        assert await sql.fetchval("select count(*) from event where kind = 'card.quarantined'") == 1

    async def test_how_long_it_has_been_out_and_why_is_told_by_doctor(self, lab: Lab) -> None:
        """Casebook C09: reason, evidence and date, so that the list of what is kept out does not grow stale."""
        await count(await lab.host(), 7)
        told = {check.name: check for check in await lab.app.health.doctor()}["local/0"]
        assert told.word is Word.BAD
        assert "(0 s): 7 memory errors that could not be corrected" in told.text
        assert told.fix is not None
        assert "warploom clear" in told.fix

    async def test_its_holder_keeps_the_lease_and_is_told(self, lab: Lab) -> None:
        host = await lab.host()
        agent = await lab.agent()
        held = lease_of(await lab.request(agent, "train"))
        await count(host, 2)
        state, say = await state_of(lab)
        assert state is CardState.LEASED
        assert say.endswith(", then quarantined: 2 memory errors that could not be corrected.")
        assert [check.word for check in await lab.app.health.doctor() if check.name == "local/0"] == [Word.BAD]
        (told,) = await lab.app.messages.unread(agent)
        assert "local/0, which you hold with L-1 'train', is quarantined: 2 memory errors" in told.text
        await lab.app.leases.release(agent, held)
        await host.survey()
        assert (await state_of(lab))[0] is CardState.QUARANTINED

    async def test_once_cleared_only_new_errors_speak_against_it(self, lab: Lab) -> None:
        host = await lab.host()
        operator = await lab.operator()
        await count(host, 2)
        waiting = await lab.request(await lab.agent())
        answer = await lab.app.cards.clear(operator, "local/0", preview=False)
        assert answer.consequences == [
            "2 memory errors that could not be corrected: no longer held against it.",
            "1 ticket waits; the first is granted as soon as the card is clear.",
        ]
        assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED
        await count(host, 2)
        assert (await state_of(lab))[0] is CardState.OFFERED
        await count(host, 3)
        assert (await lab.app.cards.survey()).hosts[0].cards[0].service is Service.QUARANTINED

    async def test_errors_after_the_driver_was_loaded_anew_count_from_the_start(self, lab: Lab) -> None:
        host = await lab.host()
        await count(host, 5)
        await lab.app.cards.clear(await lab.operator(), "local/0", preview=False)
        await count(host, 0)
        assert (await state_of(lab))[0] is CardState.FREE
        await count(host, 1)
        assert (await state_of(lab))[0] is CardState.QUARANTINED

    async def test_a_count_that_is_not_reported_is_no_evidence(self, lab: Lab) -> None:
        host = await lab.host()
        await count(host, None)
        assert (await state_of(lab))[0] is CardState.FREE


class TestXids:
    async def tell(self, host: LabHost, *xids: int) -> None:
        host.report(0, xids=list(xids))
        await host.survey()
        host.report(0, xids=[])

    async def told(self, sql: Sql, kind: str) -> list[str]:
        rows = await sql.fetch("select kind, facts from event where kind = $1 order by id", kind)
        return [tell(EventKind(row["kind"]), json.loads(row["facts"])) for row in rows]

    async def test_one_of_the_hardware_keeps_the_card_out_at_once_with_its_evidence(self, lab: Lab, sql: Sql) -> None:
        """Casebook C08, C09: the number, what it means and when it came are the reason, and the others go on."""
        host = await lab.host()
        await self.tell(host, 79)
        waiting = await lab.request(await lab.agent())
        elsewhere = await lab.request(await lab.agent("claude-2"), device="1")
        assert (await state_of(lab))[0] is CardState.QUARANTINED
        assert waiting.reason is not None
        assert "local/0 is quarantined since" in waiting.reason
        assert re.search(r"Xid 79: the card has fallen off the bus, at \d\d:\d\d UTC$", waiting.reason)
        assert elsewhere.state is Standing.ACTIVE
        (told,) = await self.told(sql, "card.quarantined")
        assert "warploom quarantines local/0: Xid 79" in told

    @pytest.mark.parametrize("xid", [13, 31, 43, 45, 63, 68, 69, 92, 109, 4242])
    async def test_one_of_a_program_or_that_nobody_knows_is_only_noted(self, lab: Lab, sql: Sql, xid: int) -> None:
        """Casebook C07: what a program did wrong is no evidence against the card it ran on."""
        await self.tell(await lab.host(), xid)
        assert (await state_of(lab))[0] is CardState.FREE
        assert await self.told(sql, "card.xid") == [f"the driver told of {say_xid(xid)} on local/0"]

    async def test_many_of_a_kind_are_noted_once_in_an_hour(self, lab: Lab, sql: Sql, clock: Clock) -> None:
        """Casebook C55: one line for each condition, not one for each time that it is seen."""
        host = await lab.host()
        for _ in range(3):
            await self.tell(host, 31, 43, 31)
        await self.tell(host, 43, 13)
        assert await self.told(sql, "card.xid") == [
            "the driver told of Xid 31: a page fault in the card's memory (2 times); "
            "Xid 43: a job was stopped after an error of its own on local/0",
            "the driver told of Xid 13: an exception of the graphics engine on local/0",
        ]
        clock.advance(hours=2)
        await self.tell(host, 31)
        assert len(await self.told(sql, "card.xid")) == 3

    async def test_a_card_that_is_out_already_is_not_taken_out_again(self, lab: Lab, sql: Sql) -> None:
        """Casebook C55: at most one alert for one condition."""
        host = await lab.host()
        for _ in range(3):
            await self.tell(host, 48, 48)
        assert len(await self.told(sql, "card.quarantined")) == 1
        assert len(await self.told(sql, "card.xid")) == 1

    async def test_a_reason_of_very_many_is_cut(self, lab: Lab) -> None:
        await self.tell(await lab.host(), *HARDWARE)
        assert (await state_of(lab))[0] is CardState.QUARANTINED

    async def test_a_lost_card_still_tells_why(self, lab: Lab) -> None:
        """Casebook C05, C06: the error that took the card away outlives the card's answers."""
        host = await lab.host()
        host.fail(0, CardFault.LOST)
        await self.tell(host, 79)
        lane = (await lab.app.cards.survey()).hosts[0].cards[0]
        assert (lane.state, lane.service) == (CardState.LOST, Service.QUARANTINED)
        host.fail(0, None)
        await host.survey()
        assert (await state_of(lab))[0] is CardState.QUARANTINED

    async def test_once_cleared_only_a_new_one_speaks_against_it(self, lab: Lab) -> None:
        host = await lab.host()
        await self.tell(host, 95)
        await lab.app.cards.clear(await lab.operator(), "local/0", preview=False)
        await host.survey()
        assert (await state_of(lab))[0] is CardState.FREE
        await self.tell(host, 95)
        assert (await state_of(lab))[0] is CardState.QUARANTINED

    async def test_its_holder_keeps_the_lease_and_is_told(self, lab: Lab) -> None:
        host = await lab.host()
        agent = await lab.agent()
        await lab.hold(agent)
        await self.tell(host, 48)
        assert (await state_of(lab))[0] is CardState.LEASED
        (told,) = await lab.app.messages.unread(agent)
        assert "is quarantined: Xid 48: a memory error that could not be corrected, at" in told.text


class TestOperators:
    async def test_a_card_is_quarantined_by_hand_for_a_reason_and_cleared_again(self, lab: Lab, sql: Sql) -> None:
        await lab.host()
        operator = await lab.operator()
        answer = await lab.app.cards.quarantine(operator, "0", "wrong\nresults", preview=False)
        assert (answer.card, answer.service, answer.done) == ("local/0", Service.QUARANTINED, True)
        assert answer.consequences == ["Nobody waits for it; new requests will queue until the card is cleared."]
        assert (await state_of(lab))[1].endswith("wrong results.")
        await lab.app.cards.quarantine(operator, "0", "again", preview=False)
        await lab.app.cards.clear(operator, "0", preview=False)
        again = await lab.app.cards.clear(operator, "0", preview=False)
        assert again.consequences == ["It is in service already."]
        kinds = await sql.fetch("select kind from event where kind in ('card.quarantined', 'card.cleared') order by id")
        assert [row["kind"] for row in kinds] == ["card.quarantined", "card.cleared"]

    @pytest.mark.parametrize("verb", ["quarantine", "clear"])
    async def test_a_preview_changes_nothing(self, lab: Lab, sql: Sql, verb: str) -> None:
        await lab.host()
        operator = await lab.operator()
        if verb == "clear":
            await lab.app.cards.quarantine(operator, "0", "why", preview=False)
        before = await whole_database(sql)
        cards = lab.app.cards
        answer = await (
            cards.clear(operator, "0", preview=True)
            if verb == "clear"
            else cards.quarantine(operator, "0", "why", preview=True)
        )
        assert (answer.done, bool(answer.consequences)) == (False, True)
        assert await whole_database(sql) == before

    async def test_nobody_else_may(self, lab: Lab, sql: Sql) -> None:
        await lab.host()
        agent = await lab.agent()
        before = await whole_database(sql)
        with pytest.raises(NotAllowed, match="needs the role operator"):
            await lab.app.cards.quarantine(agent, "0", "why", preview=False)
        with pytest.raises(NotAllowed, match="needs the role operator"):
            await lab.app.cards.clear(agent, "0", preview=True)
        assert await whole_database(sql) == before

    @pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "\x00"])
    async def test_a_reason_must_be_given(self, lab: Lab, reason: str) -> None:
        await lab.host()
        with pytest.raises(MalformedInput, match=r"[Rr]eason"):
            await lab.app.cards.quarantine(await lab.operator(), "0", reason, preview=False)

    async def test_what_is_drained_is_not_cleared(self, lab: Lab) -> None:
        await lab.host()
        operator = await lab.operator()
        await lab.app.cards.drain(operator, "0", None, preview=False)
        with pytest.raises(NotAllowed, match="local/0 is drained, not quarantined"):
            await lab.app.cards.clear(operator, "0", preview=False)
