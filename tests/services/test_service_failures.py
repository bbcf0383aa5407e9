"""Jobs that fail soon after their start are held against the card they ran on, never against its host."""

import json

import pytest

from support.databases import Clock
from support.graphs import lease_number, make
from support.lab import Lab, LabHost, lease_of
from support.rows import Sql, whole_database
from warploom.domain.breaker import JobFailure, job_failure
from warploom.domain.cards import CardState, Service
from warploom.domain.errands import Outcome
from warploom.domain.events import EventKind, tell
from warploom.domain.failures import FailureClass
from warploom.domain.health import Word
from warploom.domain.identifiers import ErrandId, parse_errand
from warploom.domain.leases import LeaseState
from warploom.domain.standings import Standing
from warploom.domain.tasks import NeedsWish, TaskState

ECC = job_failure("RuntimeError: CUDA error: uncorrectable ECC error encountered")
PLAIN = job_failure("exit status 1 after 3 s")
PASSED = Outcome(passed=True, text="32 MiB were copied to its memory and back unchanged")
FAILED = Outcome(passed=False, text="the copy came back changed")


class Bench:
    """Runs jobs on the cards of one host, one after the other."""

    def __init__(self, lab: Lab, host: LabHost, clock: Clock) -> None:
        self.lab = lab
        self.host = host
        self.clock = clock
        self.probe: Outcome | None = Outcome(problem="there is no CUDA to try it with")

    async def job(
        self, failed: JobFailure | None, device: str = "0", title: str = "train", after: float = 3, **wish: int
    ) -> str:
        """Hold a card, release it after some seconds with how the job came out, and return what its holder is told."""
        agent = await self.lab.agent()
        held = lease_of(await self.lab.request(agent, title, device, **wish))
        self.clock.advance(seconds=after)
        await self.host.survey()
        answer = await self.lab.app.leases.release(agent, held, failed)
        await self.host.survey()
        await self._answer_probes()
        return answer.next

    async def probes(self) -> list[ErrandId]:
        """Return the probes that the host is asked for."""
        orders = await self.lab.app.hosts.orders("local", 0)
        return [parse_errand(errand.errand) for errand in orders.errands if errand.probe is not None]

    async def answer(self, outcome: Outcome) -> None:
        """Let the host say what came of the one probe that it is asked for."""
        (errand,) = await self.probes()
        await self.lab.app.errands.answer("local", errand, outcome)
        await self.host.survey()

    async def _answer_probes(self) -> None:
        if self.probe is not None:
            for errand in await self.probes():
                await self.lab.app.errands.answer("local", errand, self.probe)
                await self.host.survey()

    async def states(self) -> list[CardState]:
        return [lane.state for lane in (await self.lab.app.cards.survey()).hosts[0].cards]


@pytest.fixture
async def bench(lab: Lab, clock: Clock) -> Bench:
    return Bench(lab, await lab.host(), clock)


async def told(sql: Sql, kind: EventKind) -> list[str]:
    rows = await sql.fetch("select facts from event where kind = $1 order by id", kind.value)
    return [tell(kind, json.loads(row["facts"])) for row in rows]


class TestTheWordsOfTheHardware:
    async def test_two_in_a_row_keep_the_card_out_with_the_evidence_and_its_queue(self, bench: Bench, sql: Sql) -> None:
        """Casebook C08: repeated fast failures with hardware signatures; the queue is kept, the operator alerted."""
        assert "quarantined" not in await bench.job(ECC)
        said = await bench.job(ECC)
        assert said.startswith("local/0 is quarantined now: 2 jobs in a row failed in the words of the hardware")
        waiting = await bench.lab.request(await bench.lab.agent())
        assert waiting.state is Standing.QUEUED
        assert waiting.reason is not None
        assert "local/0 is quarantined since" in waiting.reason
        assert "L-1 at" in waiting.reason
        assert "L-2 at" in waiting.reason
        assert len(await told(sql, EventKind.CARD_QUARANTINED)) == 1

    async def test_the_other_cards_of_the_host_stay_in_the_pool(self, bench: Bench, sql: Sql) -> None:
        """Casebook C07: the card is blamed, not the host."""
        await bench.job(ECC)
        await bench.job(PLAIN, device="1")
        await bench.job(ECC)
        assert await bench.states() == [CardState.QUARANTINED, CardState.FREE]
        assert (await bench.lab.request(await bench.lab.agent(), device="any")).cards == ["local/1"]
        checks = {check.name: check.word for check in await bench.lab.app.health.doctor()}
        assert (checks["local"], checks["local/0"]) == (Word.OK, Word.BAD)
        assert await sql.fetchval("select count(*) from card where index = 1 and suspicion is not null") == 0

    async def test_a_success_in_between_forgets_what_was_before(self, bench: Bench) -> None:
        for failed in (ECC, None, ECC):
            await bench.job(failed)
        assert await bench.states() == [CardState.FREE, CardState.FREE]

    async def test_a_card_that_was_cleared_starts_anew(self, bench: Bench) -> None:
        """Casebook C09: what kept it out does not outlive the repair."""
        await bench.job(ECC)
        await bench.job(ECC)
        await bench.lab.app.cards.clear(await bench.lab.operator(), "local/0", preview=False)
        await bench.job(ECC)
        assert (await bench.states())[0] is CardState.FREE
        await bench.job(ECC)
        assert (await bench.states())[0] is CardState.QUARANTINED

    async def test_a_job_that_ran_for_long_before_it_failed_does_not_count(self, bench: Bench) -> None:
        await bench.job(ECC)
        await bench.job(ECC, after=121)
        assert (await bench.states())[0] is CardState.FREE

    async def test_of_two_cards_held_together_only_the_one_that_failed_again_is_out(self, bench: Bench) -> None:
        """Casebook C07: it may have been either, until one of them fails by itself."""
        await bench.job(ECC, device="any", cards=2)
        await bench.job(ECC, device="1")
        assert await bench.states() == [CardState.FREE, CardState.QUARANTINED]

    async def test_two_cards_that_fail_together_are_only_suspect(self, bench: Bench, sql: Sql) -> None:
        for _ in range(3):
            await bench.job(ECC, device="any", cards=2)
        assert await bench.states() == [CardState.FREE, CardState.FREE]
        suspicions = await told(sql, EventKind.CARD_SUSPECTED)
        assert len(suspicions) == 2
        assert all("it may be any" in line for line in suspicions)


class TestSuspicion:
    async def test_three_different_jobs_that_fail_at_once_are_told_once_and_warned_of(
        self, bench: Bench, sql: Sql
    ) -> None:
        """Casebook C55: one alert for the condition. The card stays in the pool until something speaks for its hardware."""
        for title in ("train", "eval", "sweep", "bench"):
            await bench.job(PLAIN, title=title)
        (line,) = await told(sql, EventKind.CARD_SUSPECTED)
        assert line.startswith("local/0 is suspect: 3 jobs in a row failed on it within 2 min of their start: L-1 at")
        check = next(check for check in await bench.lab.app.health.doctor() if check.name == "local/0")
        assert check.word is Word.WARN
        assert "local/0 is suspect since" in check.text
        assert await bench.states() == [CardState.FREE, CardState.FREE]

    async def test_one_job_that_is_tried_again_and_again_is_no_suspicion(self, bench: Bench, sql: Sql) -> None:
        for _ in range(5):
            await bench.job(PLAIN)
        assert await told(sql, EventKind.CARD_SUSPECTED) == []

    async def test_a_success_ends_it(self, bench: Bench) -> None:
        for title in ("train", "eval", "sweep"):
            await bench.job(PLAIN, title=title)
        await bench.job(None)
        assert [check.name for check in await bench.lab.app.health.doctor() if check.name == "local/0"] == []

    @pytest.mark.parametrize("failure", ["user_error", "oom_device", "oom_host", "interrupted"])
    async def test_what_its_holder_blames_on_something_else_is_none(self, bench: Bench, sql: Sql, failure: str) -> None:
        for title in ("train", "eval", "sweep"):
            await bench.job(job_failure("CUDA out of memory", FailureClass(failure)), title=title)
        assert await sql.fetchval("select count(*) from card where failures <> '[]'") == 0

    async def test_no_more_is_remembered_than_is_needed(self, bench: Bench, sql: Sql) -> None:
        for _ in range(12):
            await bench.job(PLAIN)
        kept = json.loads(await sql.fetchval("select failures from card where index = 0"))
        assert [each["lease"] for each in kept] == list(range(5, 13))


class TestRequests:
    async def test_a_request_whose_job_failed_has_failed_with_its_words(self, bench: Bench, sql: Sql) -> None:
        agent = await bench.lab.agent()
        asked = await bench.lab.request(agent)
        answer = await bench.lab.app.leases.release(agent, lease_of(asked), ECC)
        assert answer.state is LeaseState.ENDED
        row = await sql.fetchrow("select state::text, outcome, failure::text from task")
        assert (row["state"], row["outcome"], row["failure"]) == ("failed", ECC.words, "infra")
        assert (await bench.lab.explain(agent, asked)).reason == ECC.words
        (line,) = await told(sql, EventKind.TASK_FAILED)
        assert line == f"'train' failed (infra), attempt 1: {ECC.words}"

    async def test_releasing_again_changes_nothing_whatever_is_said_then(self, bench: Bench, sql: Sql) -> None:
        agent = await bench.lab.agent()
        held = await bench.lab.hold(agent)
        await bench.lab.app.leases.release(agent, held, ECC)
        before = await whole_database(sql)
        for failed in (ECC, PLAIN, None):
            answer = await bench.lab.app.leases.release(agent, held, failed)
            assert answer.next == "It was released already; nothing to do."
        assert await whole_database(sql) == before

    async def test_who_keeps_its_place_may_say_how_the_job_failed(self, bench: Bench, sql: Sql) -> None:
        agent = await bench.lab.agent()
        asked = await bench.lab.request(agent)
        await bench.lab.request(await bench.lab.agent("claude-2"))
        await bench.lab.app.leases.release(agent, lease_of(asked), ECC, keeps_place=True)
        assert (await bench.lab.explain(agent, asked)).state is Standing.QUEUED
        assert await sql.fetchval("select jsonb_array_length(failures) from card where index = 0") == 1

    async def test_an_offer_that_is_given_back_proves_nothing(self, bench: Bench, sql: Sql) -> None:
        await bench.job(ECC)
        holder, waiter = await bench.lab.agent(), await bench.lab.agent("claude-2")
        held = await bench.lab.hold(holder)
        waiting = await bench.lab.request(waiter)
        await bench.lab.app.leases.release(holder, held, PLAIN)
        await bench.host.survey()
        offer = await bench.lab.explain(waiter, waiting)
        assert offer.state is Standing.OFFERED
        await bench.lab.app.leases.release(waiter, lease_of(offer))
        assert await sql.fetchval("select jsonb_array_length(failures) from card where index = 0") == 2


class TestTasks:
    async def test_a_task_that_fails_in_the_words_of_the_hardware_is_tried_again_as_infra(
        self, bench: Bench, sql: Sql
    ) -> None:
        """Casebook C07: it is no fault of the task, and counts against the card that it ran on."""
        ada = await bench.lab.agent("ada")
        for title in ("first", "second"):
            task = await make(bench.lab, ada, title, needs=NeedsWish(device="0"))
            await bench.lab.app.claims.claim(ada, task)
            step = await bench.lab.app.claims.fail(ada, task, None, "GPU has fallen off the bus")
            assert step.state is TaskState.FAILED
            await bench.host.survey()
        assert "local/0 is quarantined now: 2 jobs in a row" in step.next
        assert await sql.fetchval("select array_agg(distinct failure::text) from task") == ["infra"]
        assert await bench.states() == [CardState.QUARANTINED, CardState.FREE]

    async def test_a_task_that_is_done_speaks_for_its_card(self, bench: Bench, sql: Sql) -> None:
        await bench.job(ECC)
        ada = await bench.lab.agent("ada")
        task = await make(bench.lab, ada, "first", needs=NeedsWish(device="0"))
        (claim,) = (await bench.lab.app.claims.claim(ada, task)).claims
        await bench.lab.app.claims.done(ada, task, lease_number(claim.lease))
        assert await sql.fetchval("select count(*) from card where failures <> '[]'") == 0

    async def test_a_task_without_cards_is_held_against_none(self, bench: Bench, sql: Sql) -> None:
        ada = await bench.lab.agent("ada")
        task = await make(bench.lab, ada, "first")
        await bench.lab.app.claims.claim(ada, task)
        await bench.lab.app.claims.fail(ada, task, None, ECC.words)
        assert await sql.fetchval("select count(*) from card where failures <> '[]'") == 0

    async def test_silence_is_neither_a_failure_nor_a_success(self, bench: Bench, sql: Sql, clock: Clock) -> None:
        await bench.job(ECC)
        await bench.lab.hold(await bench.lab.agent("claude-2"))
        clock.advance(minutes=11)
        await bench.lab.duties()
        assert await sql.fetchval("select jsonb_array_length(failures) from card where index = 0") == 1


async def test_a_drained_card_is_quarantined_by_its_failures_too(bench: Bench) -> None:
    await bench.job(ECC)
    agent = await bench.lab.agent()
    held = await bench.lab.hold(agent)
    await bench.lab.app.cards.drain(await bench.lab.operator(), "0", None, preview=False)
    await bench.lab.app.leases.release(agent, held, ECC)
    assert (await bench.lab.app.cards.survey()).hosts[0].cards[0].service is Service.QUARANTINED


class TestProbes:
    @pytest.fixture
    async def suspect(self, bench: Bench) -> Bench:
        """A card on which three different jobs failed at once."""
        bench.probe = None
        for title in ("train", "eval", "sweep"):
            await bench.job(PLAIN, title=title)
        return bench

    async def test_a_suspect_card_is_probed_once_it_is_clear_and_granted_to_nobody_meanwhile(
        self, suspect: Bench
    ) -> None:
        """Casebook C07, C08: failures that name no hardware take a card out only when it fails a probe too."""
        agent = await suspect.lab.agent()
        waiting = await suspect.lab.request(agent)
        await suspect.host.survey()
        assert (await suspect.lab.explain(agent, waiting)).state is Standing.QUEUED
        await suspect.answer(PASSED)
        assert (await suspect.lab.explain(agent, waiting)).state is Standing.OFFERED
        assert await suspect.probes() == []

    async def test_one_that_passes_is_suspect_no_more(self, suspect: Bench, sql: Sql) -> None:
        await suspect.answer(PASSED)
        assert await sql.fetchval("select count(*) from card where suspicion is not null or failures <> '[]'") == 0
        assert await suspect.states() == [CardState.FREE, CardState.FREE]

    async def test_one_that_fails_is_out(self, suspect: Bench) -> None:
        await suspect.answer(FAILED)
        assert await suspect.states() == [CardState.QUARANTINED, CardState.FREE]

    async def test_it_is_asked_for_only_once_also_where_nothing_came_of_it(self, suspect: Bench, sql: Sql) -> None:
        """Casebook C55."""
        await suspect.answer(Outcome(problem="there is no CUDA to try it with"))
        for _ in range(3):
            await suspect.host.survey()
            await suspect.lab.duties()
        assert await sql.fetchval("select count(*) from errand") == 1
        assert [check.word for check in await suspect.lab.app.health.doctor() if check.name == "local/0"] == [Word.WARN]
