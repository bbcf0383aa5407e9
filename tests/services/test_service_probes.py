"""Probes of cards: never on one that is held; what comes of one keeps a card out or gives it back."""

import pytest

from support.lab import Lab, LabHost
from support.rows import Sql
from warploom.domain.cards import CardLane, CardState, Condition, Service
from warploom.domain.errands import ErrandView, Outcome
from warploom.domain.errors import NotAllowed, NotFound, NotReady, Taken
from warploom.domain.hosts import CardFault
from warploom.domain.identifiers import ErrandId
from warploom.domain.standings import Standing

PASSED = Outcome(passed=True, text="32 MiB were copied to its memory and back unchanged")
FAILED = Outcome(passed=False, text="CUDA_ERROR_ECC_UNCORRECTABLE while making a context")


async def lane(lab: Lab, index: int = 0) -> CardLane:
    return (await lab.app.cards.survey()).hosts[0].cards[index]


async def ask(lab: Lab, card: str = "local/0") -> ErrandId:
    asked = await lab.app.errands.probe(await lab.operator(), card, None, preview=False)
    assert asked.errand is not None
    return ErrandId(int(asked.errand[2:]))


async def probed(lab: Lab, outcome: Outcome) -> ErrandView:
    return await lab.app.errands.answer("local", await ask(lab), outcome)


async def quarantined(lab: Lab, errors: int = 0) -> LabHost:
    """A host whose first card is out, for memory errors or by an operator's word."""
    host = await lab.host()
    if errors:
        host.report(0, ecc_errors=errors)
        await host.survey()
    else:
        await lab.app.cards.quarantine(await lab.operator(), "local/0", "wrong results", preview=False)
    return host


class TestAsking:
    async def test_a_preview_says_what_is_done_and_what_follows(self, lab: Lab, sql: Sql) -> None:
        """Casebook C09: what is out of service can be probed again."""
        await quarantined(lab)
        await lab.request(await lab.agent())
        answer = await lab.app.errands.probe(await lab.operator(), "local/0", None, preview=True)
        assert (answer.errand, answer.done, answer.about) == (None, False, "local/0")
        assert answer.consequences == [
            "A process on local allocates a little memory on local/0 and copies it there and back, for 20 s at most.",
            "local/0 is granted to nobody meanwhile.",
            "If it passes, local/0 is back in service; 1 waiting, the first is granted as soon as it is observed clear.",
            "If it fails, local/0 stays quarantined with that as evidence.",
        ]
        assert await sql.fetchval("select count(*) from errand") == 0

    async def test_its_host_is_told_the_card_by_its_uuid(self, lab: Lab) -> None:
        await quarantined(lab)
        await ask(lab)
        (errand,) = (await lab.app.hosts.orders("local", 0)).errands
        assert errand.probe is not None
        assert errand.probe.uuid == "GPU-local-0000"
        assert errand.kill is None

    async def test_a_card_that_is_held_is_never_probed(self, lab: Lab) -> None:
        await lab.host()
        await lab.hold(await lab.agent())
        with pytest.raises(Taken, match="local/0 is held by claude-1 with L-1; a held card is not probed"):
            await ask(lab)

    async def test_a_card_that_is_in_service_and_in_use_is_not_probed(self, lab: Lab) -> None:
        host = await lab.host()
        host.run(0)
        await host.survey()
        with pytest.raises(NotReady, match="used by somebody else") as refused:
            await ask(lab)
        assert refused.value.next_step.endswith("`warploom drain local/0`.")

    async def test_agents_may_not_and_unknown_cards_are_refused(self, lab: Lab) -> None:
        await lab.host()
        with pytest.raises(NotAllowed):
            await lab.app.errands.probe(await lab.agent(), "local/0", None, preview=True)
        with pytest.raises(NotFound):
            await ask(lab, "local/7")

    async def test_asking_twice_finds_the_same_errand(self, lab: Lab) -> None:
        await lab.host()
        assert await ask(lab) == await ask(lab)


class TestMeanwhile:
    async def test_a_free_card_is_granted_to_nobody_until_the_probe_is_answered(self, lab: Lab) -> None:
        host = await lab.host()
        errand = await ask(lab)
        waiting = await lab.request(await lab.agent())
        await host.survey()
        assert (await lane(lab)).condition is Condition.SETTLING
        assert (await lab.explain(await lab.agent(), waiting)).state is Standing.QUEUED
        await lab.app.errands.answer("local", errand, PASSED)
        await host.survey()
        assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED

    async def test_the_memory_it_uses_is_not_taken_for_a_stranger_s(self, lab: Lab) -> None:
        host = await lab.host()
        errand = await ask(lab)
        host.report(0, used_mib=1_400)
        await host.survey()
        assert (await lane(lab)).condition is Condition.SETTLING
        await lab.app.errands.answer("local", errand, PASSED)
        await host.survey()
        host.report(0, used_mib=500)
        await host.survey()
        assert (await lane(lab)).state is CardState.FREE

    async def test_somebody_else_s_process_is_still_seen(self, lab: Lab) -> None:
        host = await lab.host()
        await ask(lab)
        host.run(0)
        await host.survey()
        assert (await lane(lab)).condition is Condition.FOREIGN

    async def test_one_that_lapses_lets_the_card_go(self, lab: Lab, sql: Sql) -> None:
        host = await lab.host()
        await ask(lab)
        await sql.execute("update errand set expires_at = expires_at - interval '3 minutes'")
        await lab.duties()
        await host.survey()
        assert (await lane(lab)).state is CardState.FREE


class TestAnswers:
    async def test_a_quarantined_card_that_passes_is_given_back_and_granted(self, lab: Lab, sql: Sql) -> None:
        """Casebook C09: the exclusion ends with the proof that the card works, and says what proved it."""
        host = await quarantined(lab)
        waiting = await lab.request(await lab.agent())
        view = await probed(lab, PASSED)
        assert view.is_success is True
        assert view.text == "passed: 32 MiB were copied to its memory and back unchanged"
        assert view.lines == ["local/0 is back in service, and is granted on as soon as it is observed clear."]
        await host.survey()
        assert (await lab.explain(await lab.agent(), waiting)).state is Standing.OFFERED
        events, _ = await lab.app.events.page(None, 50)
        assert [event.text for event in events if event.kind.value in ("card.probed", "card.cleared")] == [
            "the probe of local/0 that ada asked for: passed: 32 MiB were copied to its memory and back unchanged",
            "the probe that ada asked for cleared local/0 of its faults: it is back in service",
        ]

    async def test_memory_errors_that_nobody_excused_outweigh_a_probe_that_passes(self, lab: Lab) -> None:
        await quarantined(lab, errors=2)
        view = await probed(lab, PASSED)
        assert view.lines == [
            "local/0 stays quarantined: it counts 2 memory errors that nobody has excused, which `warploom clear local/0` excuses."
        ]
        assert (await lane(lab)).service is Service.QUARANTINED
        await lab.app.cards.clear(await lab.operator(), "local/0", preview=False)
        assert (await lane(lab)).service is Service.IN_SERVICE

    async def test_one_that_fails_stays_out_with_the_new_evidence(self, lab: Lab) -> None:
        await quarantined(lab)
        view = await probed(lab, FAILED)
        assert (view.is_success, view.lines) == (False, ["local/0 stays quarantined with that as its evidence."])
        assert (await lane(lab)).say.endswith("failed its probe: CUDA_ERROR_ECC_UNCORRECTABLE while making a context.")

    async def test_a_free_card_that_fails_is_quarantined(self, lab: Lab, sql: Sql) -> None:
        await lab.host()
        view = await probed(lab, FAILED)
        assert view.lines == ["local/0 is quarantined now."]
        assert (await lane(lab)).service is Service.QUARANTINED
        assert await sql.fetchval("select count(*) from event where kind = 'card.quarantined'") == 1

    async def test_a_drained_card_stays_drained_when_it_passes(self, lab: Lab) -> None:
        await lab.host()
        await lab.app.cards.drain(await lab.operator(), "local/0", None, preview=False)
        assert (await probed(lab, PASSED)).lines == ["local/0 is as it was: drained."]
        assert (await lane(lab)).service is Service.DRAINED

    async def test_what_could_not_be_tried_says_nothing_of_the_card(self, lab: Lab) -> None:
        """Casebook C07: a host without CUDA, or a card without memory left, is no fault of the card."""
        await quarantined(lab)
        view = await probed(lab, Outcome(problem="no CUDA driver library (libcuda.so.1) on this host"))
        assert view.text == "it could not be done: no CUDA driver library (libcuda.so.1) on this host"
        assert view.lines == ["local/0 is as it was: quarantined."]
        assert view.is_success is False

    async def test_a_card_that_is_lost_is_not_cleared_by_words_alone(self, lab: Lab) -> None:
        host = await quarantined(lab)
        errand = await ask(lab)
        host.fail(0, CardFault.LOST)
        await host.survey()
        await lab.app.errands.answer("local", errand, FAILED)
        assert (await lane(lab)).state is CardState.LOST
