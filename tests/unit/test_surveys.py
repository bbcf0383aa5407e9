"""Whose a process is, and what a card is after a survey."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.cards import Condition, Owner
from warploom.domain.hosts import CardFact, CardFault, ProcessFact, ProcessKind
from warploom.domain.processes import ProcessIdentity
from warploom.domain.surveys import (
    Judgement,
    LeaseOnHost,
    OwnedProcess,
    Remembered,
    SurveyRules,
    attribute,
    judge,
    tell_process,
)

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
RULES = SurveyRules()
SECOND = timedelta(seconds=1)
CARD = "GPU-a"
OTHER_CARD = "GPU-b"
SESSION = ProcessIdentity(100, 1000)
SESSIONS = {(100, 1000): 7}


def process(lease: str | None = None, ancestors: tuple[ProcessIdentity, ...] = (), **given: object) -> ProcessFact:
    return replace(
        ProcessFact(500, 5000, user="ada", command="python train.py", memory_mib=2048),
        lease=lease,
        ancestors=list(ancestors),
        **given,
    )


def lease(number: int, session: int = 7, cards: tuple[str, ...] = (CARD,), *, live: bool = True) -> LeaseOnHost:
    return LeaseOnHost(number, session, frozenset(cards), live)


def by_number(*leases: LeaseOnHost) -> dict[int, LeaseOnHost]:
    return {each.lease: each for each in leases}


def card(used: int | None = 0, processes: list[ProcessFact] | None = None, fault: CardFault | None = None) -> CardFact:
    return CardFact(CARD, 0, "H200", 141 * 1024, used_mib=used, processes=processes or [], fault=fault)


def before(condition: Condition = Condition.CLEAR, ago: timedelta = SECOND, **given: object) -> Remembered:
    remembered = Remembered(condition, NOW - ago, baseline_mib=None, quiet_until=None, has_live_lease=False)
    return replace(remembered, **given)


def look(fact: CardFact, owned: list[OwnedProcess], remembered: Remembered, now: datetime = NOW) -> Judgement:
    return judge(fact, owned, remembered, now, RULES)


def look_at(fact: CardFact, owner: Owner, remembered: Remembered) -> Judgement:
    owned = [OwnedProcess(each, owner, lease=42, session=7) for each in fact.processes]
    return look(fact, owned, remembered)


def remember(judgement: Judgement, *, live: bool = False) -> Remembered:
    return Remembered(judgement.condition, judgement.since, judgement.baseline_mib, judgement.quiet_until, live)


class TestAttribution:
    def test_a_process_that_names_a_live_lease_of_its_card_is_a_member(self):
        owned = attribute(process("L-42"), CARD, by_number(lease(42)), {})

        assert (owned.owner, owned.lease, owned.session) == (Owner.MEMBER, 42, 7)

    def test_a_process_that_names_an_ended_lease_of_its_card_is_an_ex_holder(self):
        owned = attribute(process("L-42"), CARD, by_number(lease(42, live=False)), {})

        assert (owned.owner, owned.lease) == (Owner.EX_HOLDER, 42)

    @pytest.mark.parametrize("live", [True, False])
    def test_a_process_that_names_a_lease_of_another_card_is_without_a_lease_here(self, live):
        owned = attribute(process("L-42"), CARD, by_number(lease(42, cards=(OTHER_CARD,), live=live)), {})

        assert (owned.owner, owned.lease, owned.session) == (Owner.UNLEASED, None, 7)

    @pytest.mark.parametrize("live", [True, False])
    def test_a_process_with_a_stale_lease_in_its_shell_belongs_to_its_sessions_live_lease_of_the_card(self, live):
        leases = by_number(lease(42, cards=(OTHER_CARD,), live=live), lease(50))

        owned = attribute(process("L-42"), CARD, leases, {})

        assert (owned.owner, owned.lease) == (Owner.MEMBER, 50)

    def test_the_lease_named_wins_over_other_leases_of_the_session_on_the_card(self):
        leases = by_number(lease(42, live=False), lease(43, live=False))

        assert attribute(process("L-42"), CARD, leases, {}).lease == 42

    def test_a_child_of_a_session_that_holds_the_card_is_a_member(self):
        owned = attribute(process(ancestors=(ProcessIdentity(9, 9), SESSION)), CARD, by_number(lease(42)), SESSIONS)

        assert (owned.owner, owned.lease, owned.session) == (Owner.MEMBER, 42, 7)

    def test_the_sessions_own_process_is_a_member_too(self):
        owned = attribute(process(pid=100, started=1000), CARD, by_number(lease(42)), SESSIONS)

        assert owned.owner is Owner.MEMBER

    def test_a_child_of_the_last_holder_is_an_ex_holder(self):
        leases = by_number(lease(41, live=False), lease(42, live=False))

        owned = attribute(process(ancestors=(SESSION,)), CARD, leases, SESSIONS)

        assert (owned.owner, owned.lease) == (Owner.EX_HOLDER, 42)

    def test_a_child_of_a_session_without_a_lease_on_the_card_is_named_as_that_sessions(self):
        owned = attribute(process(ancestors=(SESSION,)), CARD, by_number(lease(42, session=8)), SESSIONS)

        assert (owned.owner, owned.lease, owned.session) == (Owner.UNLEASED, None, 7)

    def test_the_nearest_session_among_the_ancestors_wins(self):
        nested = {**SESSIONS, (200, 2000): 8}

        owned = attribute(process(ancestors=(ProcessIdentity(200, 2000), SESSION)), CARD, {}, nested)

        assert owned.session == 8

    def test_a_reused_pid_of_a_session_is_nobodys(self):
        owned = attribute(process(ancestors=(ProcessIdentity(100, 1001),)), CARD, by_number(lease(42)), SESSIONS)

        assert owned.owner is Owner.FOREIGN

    @pytest.mark.parametrize("named", ["", "42 ", "L-", "L--1", "L-0x2a", "L-٤٢", "L-" + "9" * 40, "T-42", "nonsense"])
    def test_a_lease_name_that_makes_no_sense_proves_nothing(self, named):
        assert attribute(process(named), CARD, by_number(lease(42)), {}).owner is Owner.FOREIGN

    def test_a_lease_that_nobody_knows_leaves_the_decision_to_descent(self):
        owned = attribute(process("L-99", (SESSION,)), CARD, by_number(lease(42)), SESSIONS)

        assert (owned.owner, owned.lease) == (Owner.MEMBER, 42)

    def test_a_desktop_is_graphics_and_no_intruder(self):
        assert attribute(process(kind=ProcessKind.GRAPHICS), CARD, {}, {}).owner is Owner.GRAPHICS

    def test_a_process_that_a_rule_covers_is_ignored(self):
        """Casebook C19."""
        assert attribute(process(is_ignored=True), CARD, {}, {}).owner is Owner.IGNORED

    @pytest.mark.parametrize("named", ["L-42", "L-99", "nonsense"])
    def test_a_process_that_names_a_lease_is_never_ignored(self, named):
        owned = attribute(process(named, is_ignored=True), CARD, by_number(lease(42)), {})

        assert owned.owner is (Owner.MEMBER if named == "L-42" else Owner.FOREIGN)

    @pytest.mark.parametrize("cards", [(CARD,), (OTHER_CARD,)])
    def test_a_process_that_descends_from_a_session_is_never_ignored(self, cards):
        owned = attribute(process(None, (SESSION,), is_ignored=True), CARD, by_number(lease(42, cards=cards)), SESSIONS)

        assert owned.owner is (Owner.MEMBER if cards == (CARD,) else Owner.UNLEASED)

    def test_a_window_that_a_session_opened_is_graphics_and_no_intruder(self):
        owned = attribute(process(ancestors=(SESSION,), kind=ProcessKind.GRAPHICS), CARD, {}, SESSIONS)

        assert owned.owner is Owner.GRAPHICS

    @given(
        named=st.one_of(st.none(), st.integers(1, 5).map("L-{}".format), st.text(max_size=30)),
        has_session=st.booleans(),
        leases=st.lists(
            st.builds(
                LeaseOnHost,
                st.integers(1, 5),
                st.integers(7, 8),
                st.frozensets(st.sampled_from([CARD, OTHER_CARD]), min_size=1),
                st.booleans(),
            ),
            max_size=5,
            unique_by=lambda each: each.lease,
        ),
    )
    def test_only_a_live_lease_of_this_very_card_makes_a_member(self, named, has_session, leases):
        known = by_number(*leases)

        owned = attribute(process(named, (SESSION,) if has_session else ()), CARD, known, SESSIONS)

        claim = known.get(owned.lease or 0)
        assert (owned.owner is Owner.MEMBER) == (claim is not None and claim.is_live)
        assert claim is None or CARD in claim.card_uuids
        assert (owned.owner in (Owner.FOREIGN, Owner.GRAPHICS)) == (owned.session is None)


class TestAQuietCard:
    def test_a_card_with_nobody_on_it_is_clear(self):
        assert look(card(used=3), [], before(Condition.OCCUPIED)).condition is Condition.CLEAR

    def test_a_condition_keeps_its_since_while_it_lasts(self):
        steady = look(card(), [], before(ago=timedelta(hours=1)))
        changed = look(card(), [], before(Condition.OCCUPIED, ago=timedelta(hours=1)))

        assert (steady.since, changed.since) == (NOW - timedelta(hours=1), NOW)

    def test_memory_that_is_not_reported_is_not_taken_for_memory_in_use(self):
        assert look(card(used=None), [], before()).condition is Condition.CLEAR

    def test_memory_that_is_not_reported_is_not_taken_for_an_idle_baseline_of_nothing(self):
        assert look(card(used=None), [], before()).baseline_mib is None

    def test_a_desktop_does_not_keep_its_card_from_being_clear(self):
        desktop = process(kind=ProcessKind.GRAPHICS, memory_mib=900)

        assert look_at(card(used=950, processes=[desktop]), Owner.GRAPHICS, before()).condition is Condition.CLEAR

    def test_memory_beyond_what_a_desktop_shows_is_somebodys(self):
        desktop = process(kind=ProcessKind.GRAPHICS, memory_mib=900)

        judged = look_at(card(used=9000, processes=[desktop]), Owner.GRAPHICS, before())

        assert judged.condition is Condition.FOREIGN


class TestAnIgnoredProcess:
    """Casebook C19: what a rule of the host covers keeps nobody away."""

    def test_it_leaves_its_card_clear_and_its_memory_does_not_count(self):
        fact = card(used=9300, processes=[process(memory_mib=9000)])

        assert look_at(fact, Owner.IGNORED, before(baseline_mib=300)).condition is Condition.CLEAR

    def test_memory_beyond_its_own_is_somebodys(self):
        fact = card(used=9000, processes=[process(memory_mib=100)])

        assert look_at(fact, Owner.IGNORED, before()).condition is Condition.FOREIGN

    def test_memory_that_is_not_reported_may_be_somebody_elses_so_the_card_is_kept_out(self):
        fact = card(used=9000, processes=[process(memory_mib=None)])

        judged = look_at(fact, Owner.IGNORED, before())

        assert (judged.condition, judged.detail) == (
            Condition.FOREIGN,
            "8.8 GiB used by python train.py (user ada, ignored by a rule of its host, pid 500, memory not reported) or by "
            "a process that cannot be named",
        )

    def test_after_a_release_it_is_named_where_it_may_hold_what_a_ghost_would(self):
        fact = card(used=9000, processes=[process(memory_mib=None)])

        judged = look_at(fact, Owner.IGNORED, before(Condition.SETTLING, ago=RULES.settle_time))

        assert judged.condition is Condition.GHOST
        assert (judged.detail or "").startswith(
            "8.8 GiB held by python train.py (user ada, ignored by a rule of its host"
        )
        assert (judged.detail or "").endswith("or by no living process")

    def test_where_its_memory_is_not_reported_and_little_is_in_use_its_card_is_clear(self):
        fact = card(used=300, processes=[process(memory_mib=None)])

        assert look_at(fact, Owner.IGNORED, before()).condition is Condition.CLEAR

    def test_it_teaches_no_baseline(self):
        fact = card(used=300, processes=[process(memory_mib=None)])

        assert look_at(fact, Owner.IGNORED, before()).baseline_mib is None

    def test_a_rule_that_is_new_says_that_the_quiet_time_still_runs(self):
        fact = card(used=9000, processes=[process(memory_mib=9000)])

        judged = look_at(fact, Owner.IGNORED, before(Condition.FOREIGN, quiet_until=NOW + SECOND))

        assert judged.detail == "nobody is left whom its host does not ignore; back in the pool in 1 s if that stays so"

    def test_it_does_not_hide_an_intruder(self):
        owned = [OwnedProcess(process(), Owner.IGNORED), OwnedProcess(process(pid=501), Owner.FOREIGN)]

        judged = look(card(used=9000, processes=[each.fact for each in owned]), owned, before())

        assert judged.condition is Condition.FOREIGN


class TestTheBaseline:
    def test_it_is_learnt_from_a_clear_card(self):
        assert look(card(used=300), [], before()).baseline_mib == 300

    def test_it_only_ever_sinks(self):
        assert look(card(used=300), [], before(baseline_mib=100)).baseline_mib == 100
        assert look(card(used=50), [], before(baseline_mib=100)).baseline_mib == 50

    def test_it_is_not_learnt_while_somebody_is_on_the_card(self):
        fact = card(used=9000, processes=[process()])

        assert look_at(fact, Owner.FOREIGN, before()).baseline_mib is None

    def test_it_is_not_learnt_while_the_card_is_leased(self):
        assert look(card(used=300), [], before(has_live_lease=True)).baseline_mib is None

    def test_a_hidden_process_never_becomes_the_baseline_and_its_card_is_never_clear(self):
        remembered = before()
        for round_number in range(100):
            judged = look(card(used=40_000), [], remembered, NOW + round_number * timedelta(minutes=1))
            remembered = remember(judged)
            assert judged.condition is Condition.FOREIGN
            assert judged.baseline_mib is None


class TestHolders:
    def test_a_member_occupies_its_card(self):
        fact = card(used=9000, processes=[process()])

        assert look_at(fact, Owner.MEMBER, before(has_live_lease=True)).condition is Condition.OCCUPIED

    def test_memory_without_a_process_on_a_leased_card_is_its_holders(self):
        assert look(card(used=9000), [], before(has_live_lease=True)).condition is Condition.OCCUPIED

    def test_a_member_that_is_gone_leaves_its_card_settling_until_the_memory_is_gone(self):
        settling = look(card(used=9000), [], before(Condition.OCCUPIED))
        clear = look(card(used=3), [], remember(settling), NOW + SECOND)

        assert settling.condition is Condition.SETTLING
        assert clear.condition is Condition.CLEAR

    def test_a_released_card_with_its_process_still_on_it_settles_and_says_who(self):
        fact = card(used=9000, processes=[process()])

        judged = look_at(fact, Owner.EX_HOLDER, before(Condition.SETTLING))

        assert judged.condition is Condition.SETTLING
        assert judged.detail == "python train.py (ex-holder L-42, pid 500, 2 GiB)"

    def test_an_ex_holder_that_stays_occupies_the_card_for_good_and_is_named(self):
        fact = card(used=9000, processes=[process()])
        remembered = before(Condition.SETTLING, ago=RULES.settle_time)
        for round_number in range(50):
            judged = judge(
                fact,
                [OwnedProcess(process(), Owner.EX_HOLDER, 42, 7)],
                remembered,
                NOW + round_number * timedelta(seconds=30),
                RULES,
            )
            remembered = remember(judged)
            assert judged.condition is Condition.OCCUPIED
            assert "ex-holder L-42" in (judged.detail or "")

    def test_a_card_is_clear_once_the_ex_holder_that_stayed_is_gone(self):
        assert look(card(), [], before(Condition.OCCUPIED, ago=timedelta(hours=1))).condition is Condition.CLEAR


class TestGhosts:
    def test_memory_that_nobody_holds_is_a_ghost_only_after_the_settle_time(self):
        early = look(card(used=9000), [], before(Condition.SETTLING, ago=RULES.settle_time - SECOND))
        late = look(card(used=9000), [], before(Condition.SETTLING, ago=RULES.settle_time))

        assert early.condition is Condition.SETTLING
        assert (late.condition, late.detail) == (Condition.GHOST, "8.8 GiB held by no living process")

    def test_a_ghost_stays_one_until_its_memory_is_gone(self):
        still = look(card(used=9000), [], before(Condition.GHOST, ago=timedelta(days=1)))
        gone = look(card(used=3), [], before(Condition.GHOST, ago=timedelta(days=1)))

        assert (still.condition, gone.condition) == (Condition.GHOST, Condition.CLEAR)

    def test_a_card_that_comes_back_from_being_lost_settles_before_its_memory_counts_as_a_ghost(self):
        assert look(card(used=9000), [], before(Condition.LOST)).condition is Condition.SETTLING


class TestIntruders:
    @pytest.mark.parametrize("owner", [Owner.FOREIGN, Owner.UNLEASED])
    def test_somebody_elses_process_takes_the_card_out_of_the_pool(self, owner):
        judged = look_at(card(used=9000, processes=[process()]), owner, before())

        assert judged.condition is Condition.FOREIGN
        assert judged.quiet_until == NOW + RULES.foreign_quiet

    def test_somebody_elses_process_wins_over_a_member(self):
        owned = [OwnedProcess(process(), Owner.MEMBER, 42, 7), OwnedProcess(process(pid=501), Owner.FOREIGN)]

        judged = look(card(used=9000, processes=[each.fact for each in owned]), owned, before(has_live_lease=True))

        assert judged.condition is Condition.FOREIGN

    def test_a_card_is_back_only_after_the_quiet_time(self):
        leaving = look_at(card(used=9000, processes=[process()]), Owner.FOREIGN, before())
        waiting = look(card(), [], remember(leaving), NOW + RULES.foreign_quiet - SECOND)
        back = look(card(), [], remember(waiting), NOW + RULES.foreign_quiet)

        assert (waiting.condition, waiting.detail) == (
            Condition.FOREIGN,
            "somebody else's process is gone; back in the pool in 1 s if it stays away",
        )
        assert (back.condition, back.quiet_until) == (Condition.CLEAR, None)

    def test_memory_on_a_clear_card_that_no_process_explains_is_somebody_who_cannot_be_named(self):
        judged = look(card(used=9000), [], before())

        assert (judged.condition, judged.detail) == (
            Condition.FOREIGN,
            "8.8 GiB used by a process that cannot be named",
        )

    def test_many_intruders_are_told_in_one_bounded_line(self):
        many = [process(pid=500 + number) for number in range(5)]

        judged = look_at(card(used=9000, processes=many), Owner.FOREIGN, before())

        assert (judged.detail or "").endswith("; and 2 more")
        assert (judged.detail or "").count("pid") == 3

    def test_memory_that_is_not_reported_is_told_as_such(self):
        told = tell_process(OwnedProcess(process(memory_mib=None), Owner.FOREIGN))

        assert told == "python train.py (user ada, pid 500, memory not reported)"


class TestFaults:
    @pytest.mark.parametrize("fault", list(CardFault))
    def test_a_fault_is_the_condition_whatever_else_is_known(self, fault):
        judged = look_at(card(processes=[process()], fault=fault), Owner.FOREIGN, before())

        assert judged.condition.value == fault.value
        assert judged.detail

    def test_a_card_that_was_not_read_for_a_while_still_owes_its_quiet_time(self):
        quiet_until = NOW + timedelta(minutes=1)
        blind = look(card(used=None, fault=CardFault.BLIND), [], before(Condition.FOREIGN, quiet_until=quiet_until))

        assert look(card(), [], remember(blind), NOW + SECOND).condition is Condition.FOREIGN


moments = st.timedeltas(timedelta(hours=-2), timedelta(hours=2)).map(lambda span: NOW + span)
facts = st.builds(
    lambda used, fault: card(used, fault=fault),
    st.one_of(st.none(), st.integers(0, 150_000)),
    st.one_of(st.none(), st.sampled_from(CardFault)),
)
remembrances = st.builds(
    Remembered,
    st.sampled_from(Condition),
    moments,
    st.one_of(st.none(), st.integers(0, RULES.slack_mib)),
    st.one_of(st.none(), moments),
    st.booleans(),
)


class TestWhateverHappens:
    @given(facts, st.lists(st.sampled_from(Owner), max_size=4), remembrances)
    def test_a_card_is_clear_only_when_nobody_is_on_it_and_its_memory_is_near_its_baseline(
        self, fact, owners, remembered
    ):
        owned = [OwnedProcess(process(pid=500 + place), owner, 42, 7) for place, owner in enumerate(owners)]
        fact = replace(fact, processes=[each.fact for each in owned])

        judged = look(fact, owned, remembered)

        if judged.condition is Condition.CLEAR:
            shown = sum(each.fact.memory_mib or 0 for each in owned)
            limit = (remembered.baseline_mib or 0) + RULES.slack_mib + shown
            assert fact.fault is None
            assert set(owners) <= {Owner.GRAPHICS, Owner.IGNORED}
            assert fact.used_mib is None or fact.used_mib <= limit

    @given(st.lists(facts, min_size=1, max_size=12), remembrances)
    def test_the_baseline_never_rises_above_what_counts_as_clear(self, readings, remembered):
        for number, fact in enumerate(readings):
            judged = look(fact, [], remembered, NOW + number * timedelta(seconds=30))
            remembered = remember(judged, live=remembered.has_live_lease)
            assert judged.baseline_mib is None or judged.baseline_mib <= RULES.slack_mib

    @given(st.sampled_from(Condition), st.booleans(), st.integers(0, 400))
    def test_a_card_whose_cause_is_gone_always_comes_back(self, condition, was_foreign, baseline):
        quiet_until = NOW + RULES.foreign_quiet if was_foreign else None
        remembered = before(condition, baseline_mib=baseline, quiet_until=quiet_until)
        for number in range(10):
            judged = look(card(used=baseline), [], remembered, NOW + number * timedelta(minutes=1))
            remembered = remember(judged)

        assert remembered.condition is Condition.CLEAR
