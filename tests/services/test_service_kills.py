"""Ending the processes of a lease: asked for by operators, previewed, and told; the lease itself goes on."""

import pytest

from support.lab import Lab, LabHost
from support.rows import Sql
from warploom.domain.errands import ErrandState, Fate, KillWish, Outcome, ProcessFate
from warploom.domain.errors import MalformedInput, NotAllowed, NotFound
from warploom.domain.identifiers import ErrandId, LeaseId
from warploom.domain.leases import LeaseState
from warploom.domain.processes import ProcessIdentity
from warploom.domain.sessions import Actor

WISH = KillWish("it left workers behind")


async def busy(lab: Lab) -> tuple[LabHost, Actor, LeaseId]:
    """A host on which an agent's lease has two processes."""
    host = await lab.host()
    agent = await lab.agent()
    lease = await lab.hold(agent)
    host.run(0, f"L-{lease}", 9_216)
    host.run(0, f"L-{lease}", 1_024, command="loader")
    await host.survey()
    return host, agent, lease


async def ask(lab: Lab, lease: LeaseId, wish: KillWish = WISH) -> ErrandId:
    asked = await lab.app.errands.kill(await lab.operator(), lease, wish, preview=False)
    assert asked.errand is not None
    return ErrandId(int(asked.errand[2:]))


async def texts(sql: Sql) -> list[str]:
    rows = await sql.fetch(
        "select kind || ' ' || coalesce(facts ->> 'result', facts ->> 'reason') as text from event "
        "where kind like 'lease.kill%' order by id"
    )
    return [row["text"] for row in rows]


class TestAsking:
    async def test_a_preview_lists_each_process_and_changes_nothing(self, lab: Lab, sql: Sql) -> None:
        """Casebook C16: all members are listed; an operator's kill takes the whole set."""
        _, _, lease = await busy(lab)
        answer = await lab.app.errands.kill(await lab.operator(), lease, WISH, preview=True)
        assert (answer.errand, answer.done, answer.host, answer.about) == (None, False, "local", "L-1")
        assert answer.consequences == [
            "2 processes of L-1 on local are told to end (TERM); after 10 s what is left is killed (KILL).",
            "python (L-1, pid 5001, 9 GiB), user ada",
            "loader (L-1, pid 5002, 1 GiB), user ada",
            "So does everything else there that carries L-1 in its environment or descends from these; sessions' own programs, "
            "Warploom's and other leases' are left alone.",
            "L-1 itself goes on until its holder ends it or falls silent; then local/0 is granted on once it is observed clear.",
            "claude-1 is told who did it and why.",
        ]
        assert await sql.fetchval("select count(*) from errand") == 0
        assert await texts(sql) == []

    async def test_its_host_is_told_which_processes_and_whom_to_spare(self, lab: Lab) -> None:
        _, _, lease = await busy(lab)
        await ask(lab, lease, KillWish("why", 3))
        (errand,) = (await lab.app.hosts.orders("local", 0)).errands
        assert errand.kill is not None
        assert (errand.kill.lease, errand.kill.grace_seconds) == ("L-1", 3)
        assert errand.kill.processes == [ProcessIdentity(5001, 77), ProcessIdentity(5002, 77)]
        assert len(errand.kill.spared) == 1
        assert errand.kill.spared[0].started == 33

    async def test_the_holder_is_told_who_did_it_and_why_and_keeps_the_lease(self, lab: Lab) -> None:
        _, agent, lease = await busy(lab)
        await ask(lab, lease)
        (told,) = await lab.app.messages.unread(agent)
        assert told.text.startswith("ada is ending the processes of L-1 on local/0 ('train'): it left workers behind.")
        assert (await lab.app.leases.accept(agent, lease)).state is LeaseState.ACTIVE

    async def test_an_agent_is_told_to_write_to_the_holder_instead(self, lab: Lab) -> None:
        _, agent, lease = await busy(lab)
        with pytest.raises(NotAllowed) as refused:
            await lab.app.errands.kill(agent, lease, WISH, preview=False)
        assert refused.value.next_step == 'Write to its holder instead: loom_message("claude-1", "…").'

    async def test_asking_twice_finds_the_same_errand_and_tells_the_holder_once(self, lab: Lab, sql: Sql) -> None:
        _, agent, lease = await busy(lab)
        assert await ask(lab, lease) == await ask(lab, lease)
        assert len(await lab.app.messages.unread(agent)) == 1
        assert await texts(sql) == ["lease.kill_asked it left workers behind"]

    async def test_an_ended_lease_whose_processes_stayed_can_be_cleared_away_too(self, lab: Lab) -> None:
        """Casebook C20: what an ex-holder left keeps the card, and an operator may end it."""
        host, agent, lease = await busy(lab)
        await lab.app.leases.release(agent, lease)
        await host.survey()
        answer = await lab.app.errands.kill(await lab.operator(), lease, WISH, preview=True)
        assert answer.consequences[1] == "python (ex-holder L-1, pid 5001, 9 GiB), user ada"
        assert answer.consequences[4] == "L-1 is over already; local/0 is granted on once it is observed clear."

    async def test_a_process_that_works_for_another_lease_too_is_left_alone(self, lab: Lab) -> None:
        host, agent, lease = await busy(lab)
        other = await lab.hold(agent, "1")
        shared = host.cards[0].processes[0]
        host.report(1, processes=[shared])
        await host.survey()
        answer = await lab.app.errands.kill(await lab.operator(), lease, WISH, preview=True)
        assert answer.consequences[-3] == (
            f"Left alone, because it works for another lease too: python (L-{lease}, pid {shared.pid}, 9 GiB)"
        )
        await ask(lab, lease)
        (errand,) = (await lab.app.hosts.orders("local", 0)).errands
        assert errand.kill is not None
        identity = ProcessIdentity(shared.pid, shared.started)
        assert identity not in errand.kill.processes
        assert identity in errand.kill.spared
        assert other != lease

    async def test_a_lease_without_cards_and_one_that_never_was_are_refused(self, lab: Lab) -> None:
        await lab.host()
        with pytest.raises(NotFound, match="There is no lease L-9"):
            await ask(lab, LeaseId(9))

    @pytest.mark.parametrize("grace", [-1, 121, float("nan"), float("inf")])
    async def test_a_grace_out_of_range_is_refused(self, lab: Lab, grace: float) -> None:
        _, _, lease = await busy(lab)
        with pytest.raises(MalformedInput, match="out of range"):
            await ask(lab, lease, KillWish("why", grace))


class TestAnswers:
    async def test_what_became_of_each_process_is_shown_and_told(self, lab: Lab, sql: Sql) -> None:
        _, _, lease = await busy(lab)
        errand = await ask(lab, lease)
        outcome = Outcome(
            [
                ProcessFate(5001, 77, Fate.ENDED, "python", "ada"),
                ProcessFate(5002, 77, Fate.KILLED, "loader", "ada"),
                ProcessFate(5003, 77, Fate.REPLACED),
            ]
        )
        view = await lab.app.errands.answer("local", errand, outcome)
        assert (view.state, view.is_success) == (ErrandState.ANSWERED, True)
        assert view.text == "1 ended, 1 killed and 1 replaced by another process and left alone"
        assert view.lines == [
            "python (pid 5001, user ada): ended when it was told to (TERM)",
            "loader (pid 5002, user ada): did not end when it was told to, and was killed (KILL)",
            "a process (pid 5003): not the recorded process; left alone",
        ]
        assert (await texts(sql))[-1] == f"lease.killed {view.text}"

    async def test_a_second_answer_changes_nothing(self, lab: Lab, sql: Sql) -> None:
        _, _, lease = await busy(lab)
        errand = await ask(lab, lease)
        first = await lab.app.errands.answer("local", errand, Outcome([ProcessFate(5001, 77, Fate.ENDED)]))
        again = await lab.app.errands.answer("local", errand, Outcome([ProcessFate(5001, 77, Fate.GONE)]))
        assert first == again
        assert await sql.fetchval("select count(*) from event where kind = 'lease.killed'") == 1

    async def test_the_card_passes_on_once_it_is_observed_clear_and_not_before(self, lab: Lab) -> None:
        """Casebook C25: that a kill was carried out is no proof that a card is clear."""
        host, agent, lease = await busy(lab)
        await lab.app.leases.release(agent, lease)
        await host.survey()
        waiting = await lab.request(await lab.agent("claude-2"))
        errand = await ask(lab, lease)
        await lab.app.errands.answer("local", errand, Outcome([ProcessFate(5001, 77, Fate.ENDED)]))
        await lab.duties()
        assert (await lab.explain(await lab.agent("claude-2"), waiting)).state.value == "queued"
        host.end(0)
        await host.survey()
        assert (await lab.explain(await lab.agent("claude-2"), waiting)).state.value == "offered"
