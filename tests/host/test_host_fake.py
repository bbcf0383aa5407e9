"""Fake cards behave as they are told, with real processes on them."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from trainings import Training

from warploom.client.processes import identity_of
from warploom.domain.hosts import CardFact, CardFault, ProcessKind
from warploom.domain.processes import ProcessIdentity
from warploom.host.fake import MEMORY_MIB, FakeProbe
from warploom.host.fake_cards import FakeCards, FakeProcess, FakeScript
from warploom.host.fake_files import write_json
from warploom.host.processes import ProcessBook
from warploom.host.roster import Roster
from warploom.host.survey import Surveyor

AMPLE = timedelta(seconds=20)
Train = Callable[..., Training]


@pytest.fixture
def probe(cards: FakeCards) -> FakeProbe:
    return FakeProbe(cards, 2, ProcessBook(), AMPLE)


def look(probe: FakeProbe) -> dict[int, CardFact]:
    return {card.index: card for card in probe.read().cards}


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Say whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not (is_true := condition()) and time.monotonic() < end:
        threading.Event().wait(0.01)
    return is_true


def pids(card: CardFact) -> list[int]:
    return [process.pid for process in card.processes]


class TestIdleCards:
    def test_they_are_told_whole(self, probe, cards):
        assert look(probe)[1] == CardFact(
            uuid=cards.uuid(1),
            index=1,
            model="FAKE-H200",
            memory_mib=141 * 1024,
            pci_bus_id="00000000:02:00.0",
            used_mib=0,
            utilisation=0,
            temperature=30,
            ecc_errors=0,
        )

    def test_their_uuids_are_their_own_and_stay_with_the_home(self, tmp_path, cards):
        first = [cards.uuid(card) for card in range(3)]
        cards.folder.parent.rename(tmp_path / "moved")

        assert len(set(first)) == 3
        assert all(uuid.startswith(f"GPU-fake000{card}-") for card, uuid in enumerate(first))
        assert [FakeCards(tmp_path / "moved").uuid(card) for card in range(3)] == first
        assert FakeCards(tmp_path / "other").uuid(0) != first[0]


class TestRealProcesses:
    def test_a_process_on_a_card_is_told_with_its_memory_lease_and_parents(self, probe, cards, train):
        training = train(9000, WARPLOOM_LEASE="L-42", CUDA_VISIBLE_DEVICES=cards.uuid(1))

        free, used = look(probe).values()

        (process,) = used.processes
        assert (free.used_mib, free.processes) == (0, [])
        assert (used.used_mib, used.utilisation) == (9000, 95)
        assert (process.pid, process.memory_mib, process.lease) == (training.pid, 9000, "L-42")
        assert process.kind is ProcessKind.COMPUTE
        assert identity_of(os.getpid()) in process.ancestors
        assert ProcessIdentity(process.pid, process.started) == identity_of(training.pid)

    def test_a_card_is_free_at_once_when_its_process_was_killed(self, probe, cards, train):
        training = train()
        before = look(probe)[0].used_mib
        training.end()

        assert (before, look(probe)[0].used_mib) == (9000, 0)
        assert list((cards.folder / "contexts").iterdir()) == []

    def test_a_card_is_free_when_its_process_gives_it_back_and_runs_on(self, probe, train):
        training = train()
        training.vacate()

        assert (look(probe)[0].used_mib, look(probe)[0].processes) == (0, [])

    def test_two_processes_share_a_card(self, probe, train):
        first, second = train(1000, 30), train(2000, 80)

        card = look(probe)[0]

        assert sorted(pids(card)) == sorted([first.pid, second.pid])
        assert (card.used_mib, card.utilisation) == (3000, 100)

    def test_the_memory_of_a_process_that_ended_drains_slowly_when_told_to(self, probe, cards, train):
        cards.set_drain(0, 3600)
        training = train(9000)
        look(probe)
        training.end()
        draining = look(probe)[0]
        cards.set_drain(0, 0)

        assert 0 < (draining.used_mib or 0) <= 9000
        assert draining.processes == []
        assert look(probe)[0].used_mib == 0

    def test_a_context_of_a_reused_pid_counts_for_nobody(self, probe, cards):
        own = identity_of(os.getpid())
        assert own is not None
        content = {"pid": own.pid, "started": own.started - 1, "uuid": cards.uuid(0), "memory_mib": 9000}
        write_json(cards.folder / "contexts" / "1-0.json", content)

        assert (look(probe)[0].used_mib, look(probe)[0].processes) == (0, [])

    @pytest.mark.parametrize("content", [b"{", b"[]", b'{"pid": "x"}'])
    def test_a_context_that_makes_no_sense_is_passed_over(self, probe, cards, content):
        path = cards.folder / "contexts" / "1-0.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)

        assert look(probe)[0].used_mib == 0


class TestMasks:
    @pytest.mark.parametrize(
        ("mask", "device", "card"), [(None, 0, 0), (None, 1, 1), ("1", 0, 1), ("1,0", 1, 0), (" 1 , 0", 0, 1)]
    )
    def test_a_process_sees_what_cuda_would_show_it(self, probe, cards, train, mask, device, card):
        training = train(device=device, **({} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}))

        assert training.uuid == cards.uuid(card)

    def test_the_beginning_of_a_uuid_names_a_card(self, probe, cards, train):
        assert train(CUDA_VISIBLE_DEVICES="GPU-fake0001").uuid == cards.uuid(1)

    def test_a_number_follows_the_order_of_the_bus(self, probe, cards, train):
        cards.set_index(0, 1)
        cards.set_index(1, 0)

        assert train(CUDA_VISIBLE_DEVICES="0").uuid == cards.uuid(1)

    @pytest.mark.parametrize("mask", ["", "-1", "7", "GPU-nowhere", "GPU-", "x,0"])
    def test_a_process_that_sees_no_card_fails_and_says_why(self, probe, home, mask):
        environment = {**os.environ, "WARPLOOM_HOME": str(home), "CUDA_VISIBLE_DEVICES": mask}
        script = "from warploom.host.fake_context import occupy; occupy(1)"

        ended = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

        assert ended.returncode == 1
        assert f"no fake card 0 is visible: {home}/fake has 2, and CUDA_VISIBLE_DEVICES is {mask!r}" in ended.stderr

    def test_a_script_that_uses_a_card_loads_nothing_but_the_standard_library(self, probe, home):
        script = """
import sys
from warploom.host.fake_context import occupy
occupy(1)
roots = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(name for name in roots if not name.startswith("_")))
print(sorted(name for name in sys.modules if name.startswith("warploom")))
"""
        ended = subprocess.run(
            [sys.executable, "-I", "-c", script],
            env={"WARPLOOM_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

        foreign, ours = ended.stdout.splitlines()
        assert foreign == "['warploom']"
        assert ours == str(["warploom", "warploom.host", "warploom.host.fake_context", "warploom.host.fake_files"])


class TestScripts:
    def test_an_intruder_appears_and_leaves(self, probe, cards):
        pid = cards.add_process(0, FakeProcess(user="bob", command="python mine.py", memory_mib=3000))
        there = look(probe)[0]
        cards.remove_process(0, pid)

        (process,) = there.processes
        assert (process.user, process.command, process.memory_mib, there.used_mib) == (
            "bob",
            "python mine.py",
            3000,
            3000,
        )
        assert look(probe)[0].processes == []

    def test_intruders_have_pids_of_their_own_that_no_real_process_has(self, cards):
        given = {cards.add_process(0), cards.add_process(0)}

        assert len(given) == 2
        assert all(identity_of(pid) is None for pid in given)

    def test_a_real_process_counts_while_it_runs(self, probe, cards):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            cards.add_running(0, process.pid, 700)
            there = look(probe)[0]
            process.kill()

        assert (pids(there), there.used_mib) == ([process.pid], 700)
        assert look(probe)[0].used_mib == 0

    def test_a_ghost_holds_memory_without_a_process(self, probe, cards):
        cards.set_ghost(0, 5000)

        assert (look(probe)[0].used_mib, look(probe)[0].processes) == (5000, [])

    def test_more_memory_than_there_is_is_never_told(self, probe, cards):
        cards.set_baseline(0, 400)
        cards.set_ghost(0, 10**9)

        assert look(probe)[0].used_mib == MEMORY_MIB

    def test_a_lost_card_says_so_and_comes_back(self, probe, cards):
        cards.set_lost(0)
        lost = look(probe)[0]
        cards.set_lost(0, is_lost=False)

        assert (lost.fault, lost.used_mib) == (CardFault.LOST, None)
        assert look(probe)[0].fault is None

    def test_a_missing_card_is_lost_after_a_few_looks(self, probe, cards):
        surveyor = Surveyor(probe, timedelta(seconds=2), Roster(patience=2))
        surveyor.look()
        cards.set_missing(1)

        faults = [surveyor.look().cards[1].fault for _ in range(2)]

        assert faults == [CardFault.BLIND, CardFault.LOST]

    def test_a_blind_card_says_why(self, probe, cards):
        cards.set_blind(1, "the driver is upgraded")

        assert [(card.fault, card.problem) for card in look(probe).values()] == [
            (None, None),
            (CardFault.BLIND, "the driver is upgraded"),
        ]

    def test_a_driver_that_fails_leaves_every_card_blind(self, probe, cards):
        surveyor = Surveyor(probe, timedelta(seconds=2))
        surveyor.look()
        cards.set_driver_problem("version mismatch")
        blind = surveyor.look()
        cards.set_driver_problem(None)

        assert (blind.problem, [card.fault for card in blind.cards]) == ("version mismatch", [CardFault.BLIND] * 2)
        assert [card.fault for card in surveyor.look().cards] == [None, None]

    def test_a_hanging_card_is_blind_and_does_not_delay_the_others(self, cards):
        probe = FakeProbe(cards, 2, ProcessBook(), timedelta(seconds=1))
        cards.set_hanging(0, 3600)

        hanging, fine = look(probe).values()
        cards.set_hanging(0, 0)

        assert hanging.fault is CardFault.BLIND
        assert "has not answered" in (hanging.problem or "")
        assert (fine.fault, fine.used_mib) == (None, 0)

    def test_a_card_is_read_again_once_it_no_longer_hangs(self, cards):
        probe = FakeProbe(cards, 1, ProcessBook(), timedelta(seconds=0.2))
        cards.set_hanging(0, 3600)
        look(probe)
        cards.set_hanging(0, 0)

        assert eventually(lambda: look(probe)[0].fault is None)

    @pytest.mark.parametrize("reading", ["used_mib", "utilisation", "temperature"])
    def test_a_reading_that_is_not_reported_is_none(self, probe, cards, reading):
        cards.set_not_reported(0, reading)

        told = asdict(look(probe)[0])

        assert [name for name in ("used_mib", "utilisation", "temperature") if told[name] is None] == [reading]

    def test_process_memory_that_is_not_reported_is_none_and_still_in_use(self, probe, cards):
        cards.add_process(0)
        cards.set_not_reported(0, "process_memory")

        card = look(probe)[0]

        assert ([process.memory_mib for process in card.processes], card.used_mib) == ([None], 2048)

    def test_a_process_list_that_is_not_reported_is_empty(self, probe, cards):
        cards.add_process(0)
        cards.set_not_reported(0, "processes")

        assert (look(probe)[0].processes, look(probe)[0].used_mib) == ([], 2048)

    def test_a_reading_that_does_not_exist_is_refused(self, cards):
        with pytest.raises(ValueError, match="'memory' is no reading"):
            cards.set_not_reported(0, "memory")

    def test_cards_can_change_their_numbers(self, probe, cards):
        cards.set_index(0, 1)
        cards.set_index(1, 0)

        assert {card.uuid: card.index for card in probe.read().cards} == {cards.uuid(0): 1, cards.uuid(1): 0}

    def test_utilisation_can_be_fixed(self, probe, cards, train):
        train()
        cards.set_utilisation(0, 2)

        assert look(probe)[0].utilisation == 2

    def test_a_reset_card_behaves_well_again(self, probe, cards):
        cards.add_process(0)
        cards.set_lost(0)
        cards.reset(0)

        assert cards.script(0) == FakeScript()
        assert look(probe)[0].fault is None

    def test_a_script_that_makes_no_sense_blinds_its_card_alone(self, probe, cards):
        cards.set_ghost(0, 1)
        (cards.folder / "cards" / "0.json").write_text("{", encoding="utf-8")

        broken, fine = look(probe).values()

        assert (broken.fault, fine.fault) == (CardFault.BLIND, None)
        assert "makes no sense" in (broken.problem or "")

    def test_two_writers_at_once_lose_nothing(self, cards):
        together = threading.Barrier(4)

        def add() -> None:
            together.wait(10)
            for _ in range(10):
                cards.add_process(0)

        writers = [threading.Thread(target=add) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)

        assert len({process.pid for process in cards.script(0).processes}) == 40


def test_the_folder_of_the_fake_cards_is_private(cards: FakeCards, home: Path):
    cards.set_ghost(0, 1)

    assert (home / "fake").stat().st_mode & 0o077 == 0


class TestXids:
    def test_one_is_told_once_and_again_by_an_agent_that_follows_one_that_was_killed(self, probe, cards):
        """Casebook C08: told once or, at worst, twice."""
        cards.add_xid(0, 31)
        cards.add_xid(0, 79)
        first = look(probe)[0].xids
        next_agent = FakeProbe(cards, 2, ProcessBook(), AMPLE)

        assert (first, look(next_agent)[0].xids, look(next_agent)[0].xids) == ([31, 79], [31, 79], [])

    def test_one_that_comes_while_another_is_told_is_not_forgotten_with_it(self, probe, cards):
        cards.add_xid(1, 31)
        assert look(probe)[1].xids == [31]
        cards.add_xid(1, 31)

        assert (look(probe)[1].xids, look(probe)[1].xids) == ([31], [])

    def test_one_of_a_card_that_fell_off_the_bus_is_told_with_that(self, probe, cards):
        cards.add_xid(0, 79)
        cards.set_lost(0)

        card = look(probe)[0]

        assert (card.fault, card.xids) == (CardFault.LOST, [79])
