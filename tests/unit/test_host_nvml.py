"""NVML as it is met in the wild, through a stand-in for its library that raises the library's own errors."""

# ruff: noqa: N802, N815  (the stand-in has the library's names)

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from warploom.client.processes import identity_of
from warploom.domain.errors import ProviderMissing
from warploom.domain.hosts import CardFact, CardFault, ProcessKind
from warploom.host.nvml import NvmlProbe
from warploom.host.processes import ProcessBook
from warploom.host.proofs import Prover
from warploom.host.roster import Roster
from warploom.host.survey import Surveyor

GIB = 1024**3
NO_PROCESS = 4_194_305
AMPLE = timedelta(seconds=20)


@dataclass
class Gpu:
    """One GPU or MIG instance of the stand-in; a reading that is an error code is raised."""

    uuid: str
    bus: str = "00000000:3B:00.0"
    name: str = "NVIDIA H200"
    total: Any = 141 * GIB
    used: Any = 5 * 1024**2
    utilisation: Any = 7
    temperature: Any = 31
    ecc_errors: Any = 0
    compute: Any = field(default_factory=list)
    graphics: Any = field(default_factory=list)
    error: int | None = None
    mig: Any = pynvml.NVML_ERROR_NOT_SUPPORTED
    instances: list[Any] = field(default_factory=list)
    hold: threading.Event | None = None
    listening: Any = None
    xids: list[int] = field(default_factory=list)


def given(value: Any) -> Any:
    if isinstance(value, int) and value < 0:
        raise pynvml.NVMLError(-value)
    return value


def error(code: int) -> int:
    return -code


class Library:
    """The functions of pynvml that are used, over a list of GPUs."""

    nvmlMemory_v2 = pynvml.nvmlMemory_v2
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    NVML_VOLATILE_ECC = pynvml.NVML_VOLATILE_ECC

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = list(gpus)
        self.init: int | None = None
        self.count_error: int | None = None
        self.opened = 0
        self.listened = 0
        self.has_memory_v2 = True

    def nvmlInit(self) -> None:
        if self.init is not None:
            raise pynvml.NVMLError(self.init)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        if not self.opened:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.65"

    def nvmlDeviceGetCount(self) -> int:
        if self.count_error is not None:
            raise pynvml.NVMLError(self.count_error)
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        gpu = self.gpus[index]
        if gpu.hold is not None:
            gpu.hold.wait(60)
        if gpu.error is not None:
            raise pynvml.NVMLError(gpu.error)
        return gpu

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: Gpu) -> str:
        return gpu.name

    def nvmlDeviceGetPciInfo(self, gpu: Gpu) -> Any:
        return SimpleNamespace(busId=gpu.bus)

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu, version: int | None = None) -> Any:
        if version is not None and not self.has_memory_v2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        reserved = 0 if version is not None else 600 * 1024**2
        return SimpleNamespace(total=given(gpu.total), used=given(gpu.used) + reserved)

    def nvmlDeviceGetUtilizationRates(self, gpu: Gpu) -> Any:
        return SimpleNamespace(gpu=given(gpu.utilisation))

    def nvmlDeviceGetTemperature(self, gpu: Gpu, _sensor: int) -> int:
        return given(gpu.temperature)

    def nvmlDeviceGetTotalEccErrors(self, gpu: Gpu, kind: int, since: int) -> int:
        assert (kind, since) == (self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self.NVML_VOLATILE_ECC)
        return given(gpu.ecc_errors)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: Gpu) -> list[Any]:
        return given(gpu.compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu: Gpu) -> list[Any]:
        return given(gpu.graphics)

    def nvmlEventSetCreate(self) -> list[Gpu]:
        return []

    def nvmlDeviceRegisterEvents(self, gpu: Gpu, kinds: int, queue: list[Gpu]) -> None:
        assert kinds == pynvml.nvmlEventTypeXidCriticalError
        given(gpu.listening or 0)
        gpu.xids.clear()
        queue.append(gpu)
        self.listened += 1

    def nvmlEventSetWait_v2(self, queue: list[Gpu], milliseconds: int) -> Any:
        assert milliseconds == 0
        (gpu,) = queue
        if gpu.error is not None and not gpu.xids:
            raise pynvml.NVMLError(gpu.error)
        if not gpu.xids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return SimpleNamespace(device=gpu, eventType=pynvml.nvmlEventTypeXidCriticalError, eventData=gpu.xids.pop(0))

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        if gpu.mig == pynvml.NVML_ERROR_NOT_SUPPORTED:
            raise pynvml.NVMLError(gpu.mig)
        return [int(gpu.mig), int(gpu.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:
        return len(gpu.instances)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, index: int) -> Gpu:
        instance = gpu.instances[index]
        if instance is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return instance


def used_by(pid: int, memory: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


def probe(library: Library, deadline: timedelta = AMPLE) -> NvmlProbe:
    return NvmlProbe(ProcessBook(), library, deadline)


def read(library: Library) -> list[CardFact]:
    return probe(library).read().cards


def by_uuid(cards: list[CardFact]) -> dict[str, CardFact]:
    return {card.uuid: card for card in cards}


A = Gpu("GPU-a", bus="00000000:3B:00.0")
B = Gpu("GPU-b", bus="00000000:86:00.0")


class TestAHealthyCard:
    def test_it_is_told_with_every_reading(self):
        (card,) = read(Library(Gpu("GPU-a", used=5 * 1024**2 + 1)))

        assert card == CardFact(
            uuid="GPU-a",
            index=0,
            model="NVIDIA H200",
            memory_mib=141 * 1024,
            pci_bus_id="00000000:3B:00.0",
            used_mib=6,
            utilisation=7,
            temperature=31,
            ecc_errors=0,
        )

    def test_the_driver_is_told(self):
        provider = probe(Library(A)).describe()

        assert (provider.name, provider.driver) == ("nvidia", "580.65")

    def test_cards_are_numbered_by_their_place_on_the_bus(self):
        cards = read(Library(B, A))

        assert {card.uuid: card.index for card in cards} == {"GPU-a": 0, "GPU-b": 1}

    def test_what_the_driver_keeps_for_itself_is_not_memory_in_use(self):
        library = Library(Gpu("GPU-a", used=0))
        newer = read(library)[0].used_mib
        library.has_memory_v2 = False

        assert (newer, read(library)[0].used_mib) == (0, 600)

    def test_processes_are_told_by_kind_and_one_that_is_both_counts_as_compute(self):
        pid, parent = os.getpid(), os.getppid()
        gpu = Gpu("GPU-a", compute=[used_by(pid, GIB)], graphics=[used_by(pid, 1), used_by(parent, 1024**2)])

        (card,) = read(Library(gpu))

        told = {process.pid: (process.kind, process.memory_mib) for process in card.processes}
        assert told == {pid: (ProcessKind.COMPUTE, 1024), parent: (ProcessKind.GRAPHICS, 1)}
        assert card.processes[0].started == getattr(identity_of(pid), "started", None)

    def test_a_process_that_no_longer_exists_is_left_out_and_its_memory_stays_counted(self):
        (card,) = read(Library(Gpu("GPU-a", used=GIB, compute=[used_by(NO_PROCESS, GIB)])))

        assert (card.processes, card.used_mib) == ([], 1024)

    def test_the_host_s_own_probe_of_a_card_is_left_out_while_it_runs(self):
        prover = Prover((sys.executable, "-c", "import time; time.sleep(600)"), timedelta(seconds=1))
        gpu = Gpu("GPU-a")
        nvml = NvmlProbe(ProcessBook(), Library(gpu), AMPLE, prover)
        proving = threading.Thread(target=nvml.prove, args=("GPU-a",))
        proving.start()
        while not prover.pids:
            proving.join(0.01)
        (pid,) = prover.pids
        gpu.compute = [used_by(pid, GIB), used_by(os.getpid(), GIB)]

        (card,) = nvml.read().cards
        proving.join(30)

        assert [process.pid for process in card.processes] == [os.getpid()]


class TestWhatIsNotReported:
    @pytest.mark.parametrize(
        "code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_NO_DATA]
    )
    def test_a_reading_that_is_not_supported_is_none_and_never_0(self, code):
        (card,) = read(Library(Gpu("GPU-a", utilisation=error(code), temperature=error(code), ecc_errors=error(code))))

        assert (card.utilisation, card.temperature, card.ecc_errors) == (None, None, None)
        assert (card.used_mib, card.fault) == (5, None)

    def test_a_process_whose_memory_is_not_reported_has_none(self):
        (card,) = read(Library(Gpu("GPU-a", compute=[used_by(os.getpid(), None)])))

        assert [process.memory_mib for process in card.processes] == [None]

    def test_a_card_without_a_process_list_is_told_by_its_memory(self):
        not_supported = error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        (card,) = read(Library(Gpu("GPU-a", used=GIB, compute=not_supported, graphics=not_supported)))

        assert (card.processes, card.used_mib, card.fault) == ([], 1024, None)

    def test_a_card_that_shares_the_machines_memory_is_told_by_its_processes(self):
        not_supported = error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        (card,) = read(Library(Gpu("GPU-a", total=not_supported, compute=[used_by(os.getpid(), GIB)])))

        assert (card.used_mib, len(card.processes), card.fault) == (None, 1, None)
        assert card.memory_mib > 0

    def test_a_card_that_reports_neither_memory_nor_processes_is_blind(self):
        silent = error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        (card,) = read(Library(Gpu("GPU-a", total=silent, compute=silent, graphics=silent)))

        assert (card.fault, card.model) == (CardFault.BLIND, "NVIDIA GPU")


class TestOneBadCard:
    def test_a_card_that_fell_off_the_bus_is_lost_and_the_others_are_served(self):
        library = Library(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        nvml = probe(library)
        nvml.read()
        library.gpus[0].error = pynvml.NVML_ERROR_GPU_IS_LOST

        lost, fine = nvml.read().cards

        assert (lost.uuid, lost.index, lost.fault) == ("GPU-a", 0, CardFault.LOST)
        assert "fallen off the bus" in (lost.problem or "")
        assert (lost.model, lost.memory_mib, lost.used_mib) == ("NVIDIA H200", 141 * 1024, None)
        assert (fine.uuid, fine.index, fine.fault) == ("GPU-b", 1, None)

    @pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_TIMEOUT, 4242])
    def test_a_card_that_fails_in_another_way_is_blind(self, code):
        (card,) = read(Library(Gpu("GPU-a", used=error(code))))

        assert card.fault is CardFault.BLIND
        assert card.problem

    def test_a_card_that_hangs_is_blind_and_the_others_are_served(self):
        library = Library(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        nvml = probe(library, timedelta(seconds=1))
        nvml.read()
        library.gpus[0].hold = threading.Event()

        cards = by_uuid(nvml.read().cards)
        library.gpus[0].hold.set()

        assert cards["GPU-a"].fault is CardFault.BLIND
        assert "has not answered" in (cards["GPU-a"].problem or "")
        assert cards["GPU-b"].fault is None

    def test_a_card_that_never_told_which_it_is_does_not_hide_the_others(self, caplog):
        nvml = probe(Library(Gpu("GPU-a", error=pynvml.NVML_ERROR_GPU_IS_LOST), B))

        readings = [nvml.read() for _ in range(3)]

        assert [[card.uuid for card in reading.cards] for reading in readings] == [["GPU-b"]] * 3
        assert readings[0].problem is None
        assert readings[0].cards[0].index == 1
        assert len(caplog.records) == 1

    def test_a_card_that_is_no_longer_listed_is_lost_after_a_few_looks(self):
        library = Library(A, B)
        surveyor = Surveyor(probe(library), timedelta(seconds=2), Roster(patience=2))
        surveyor.look()
        library.gpus.pop()

        faults = [by_uuid(surveyor.look().cards)["GPU-b"].fault for _ in range(2)]

        assert faults == [CardFault.BLIND, CardFault.LOST]


class TestXids:
    """Casebook C05, C06, C08: what the driver tells of by itself reaches the survey, once, and for its own card."""

    def watched(self, *gpus: Gpu) -> tuple[Library, NvmlProbe]:
        library = Library(*gpus)
        nvml = probe(library)
        nvml.read()
        return library, nvml

    def test_what_a_card_told_of_since_the_last_look_is_told_once_and_in_order(self):
        library, nvml = self.watched(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        library.gpus[0].xids += [31, 43, 31]

        first, second = [[card.xids for card in nvml.read().cards] for _ in range(2)]

        assert (first, second) == ([[31, 43, 31], []], [[], []])

    def test_a_card_that_fell_off_the_bus_tells_why_and_the_others_are_read(self):
        library, nvml = self.watched(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        library.gpus[0].xids.append(79)
        library.gpus[0].error = pynvml.NVML_ERROR_GPU_IS_LOST

        lost, fine = nvml.read().cards

        assert (lost.fault, lost.xids) == (CardFault.LOST, [79])
        assert (fine.fault, fine.xids) == (None, [])

    @pytest.mark.parametrize(
        "code",
        [
            pynvml.NVML_ERROR_NOT_SUPPORTED,
            pynvml.NVML_ERROR_NO_PERMISSION,
            pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            pynvml.NVML_ERROR_UNKNOWN,
        ],
    )
    def test_a_card_that_cannot_be_listened_to_is_read_all_the_same(self, code):
        library, nvml = self.watched(Gpu("GPU-a", listening=error(code)), Gpu("GPU-b", bus="00000000:86:00.0"))
        library.gpus[0].xids.append(79)
        library.gpus[1].xids.append(48)

        cards = by_uuid(nvml.read().cards)

        assert (cards["GPU-a"].xids, cards["GPU-b"].xids) == ([], [48])
        assert [card.fault for card in cards.values()] == [None, None]

    def test_a_library_that_is_opened_anew_is_listened_to_anew_and_nothing_told_before_is_lost(self):
        library, nvml = self.watched(Gpu("GPU-a"))
        library.gpus[0].xids.append(62)
        library.count_error = pynvml.NVML_ERROR_UNINITIALIZED
        nvml.read()
        library.count_error = None

        (card,) = nvml.read().cards
        library.gpus[0].xids.append(95)

        assert (card.xids, library.listened, library.opened) == ([62], 2, 2)
        assert [card.xids for card in nvml.read().cards] == [[95]]

    def test_a_flood_of_them_is_bounded(self):
        library, nvml = self.watched(Gpu("GPU-a"))
        library.gpus[0].xids += [31] * 500

        assert [len(nvml.read().cards[0].xids) for _ in range(2)] == [32, 32]

    def test_one_of_a_divided_gpu_counts_for_each_of_its_instances(self):
        library, nvml = self.watched(Gpu("GPU-a", mig=1, instances=[Gpu("MIG-1"), Gpu("MIG-2")]), B)
        library.gpus[0].xids.append(48)

        assert {card.uuid: card.xids for card in nvml.read().cards} == {"MIG-1": [48], "MIG-2": [48], "GPU-b": []}

    def test_they_are_told_again_until_the_server_has_heard_them(self):
        library, nvml = self.watched(Gpu("GPU-a"))
        surveyor = Surveyor(nvml, timedelta(seconds=2))
        library.gpus[0].xids.append(48)

        unheard = [surveyor.look().cards[0].xids for _ in range(2)]
        surveyor.untold.clear()

        assert (unheard, surveyor.look().cards[0].xids) == ([[48], [48]], [])

    def test_a_card_that_is_not_listed_any_more_tells_none_twice(self):
        library, nvml = self.watched(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        surveyor = Surveyor(nvml, timedelta(seconds=2), Roster(patience=1))
        library.gpus[1].xids.append(48)
        told = by_uuid(surveyor.look().cards)["GPU-b"].xids
        surveyor.untold.clear()
        library.gpus.pop()

        assert (told, by_uuid(surveyor.look().cards)["GPU-b"].xids) == ([48], [])


class TestMig:
    def parent(self, *instances: Gpu | None) -> Gpu:
        return Gpu("GPU-a", mig=1, instances=list(instances))

    def test_the_instances_are_cards_and_their_gpu_is_not(self):
        small = Gpu("MIG-1", name="NVIDIA H200 MIG 1g.18gb", total=16 * GIB, utilisation=error(3))
        large = Gpu("MIG-2", name="NVIDIA H200 MIG 3g.71gb", total=70 * GIB, utilisation=error(3))

        cards = by_uuid(read(Library(self.parent(small, None, large), B)))

        assert {uuid: (card.index, card.parent_uuid) for uuid, card in cards.items()} == {
            "MIG-1": (100, "GPU-a"),
            "MIG-2": (102, "GPU-a"),
            "GPU-b": (1, None),
        }
        assert (cards["MIG-2"].memory_mib, cards["MIG-2"].utilisation) == (70 * 1024, None)

    def test_a_gpu_without_instances_yet_offers_nothing_and_keeps_its_number(self):
        assert [(card.uuid, card.index) for card in read(Library(self.parent(), B))] == [("GPU-b", 1)]

    def test_one_bad_instance_does_not_hide_its_sisters(self):
        cards = by_uuid(read(Library(self.parent(Gpu("MIG-1", used=error(999)), Gpu("MIG-2")))))

        assert {uuid: card.fault for uuid, card in cards.items()} == {"MIG-1": CardFault.BLIND, "MIG-2": None}


class TestTheDriver:
    def test_a_machine_without_one_says_so_in_one_sentence(self):
        library = Library()
        library.init = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND

        survey = Surveyor(probe(library), timedelta(seconds=2)).look()

        assert (survey.provider, survey.driver, survey.cards) == ("none", None, [])
        assert survey.problem == (
            "no NVIDIA driver found (libnvidia-ml.so.1). Everything else works; try WARPLOOM_FAKE_GPUS=2 warploom up"
        )

    @pytest.mark.parametrize("call", [NvmlProbe.describe, NvmlProbe.read])
    def test_the_real_library_says_the_same_where_there_is_no_driver(self, call: Callable[[NvmlProbe], object]):
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            pass
        else:
            pytest.skip("this machine has an NVIDIA driver")

        with pytest.raises(ProviderMissing, match=r"NVIDIA driver"):
            call(NvmlProbe(ProcessBook()))

    def test_one_that_is_installed_later_is_found(self):
        library = Library(A)
        library.init = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
        surveyor = Surveyor(probe(library), timedelta(seconds=2))
        before = surveyor.look()
        library.init = None

        assert (before.provider, surveyor.look().provider) == ("none", "nvidia")

    def test_one_that_sees_no_card_says_so(self):
        assert Surveyor(probe(Library()), timedelta(seconds=2)).look().problem == "the nvidia driver sees no card"

    @pytest.mark.parametrize("code", [pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, pynvml.NVML_ERROR_DRIVER_NOT_LOADED])
    def test_one_that_was_replaced_under_running_jobs_leaves_every_card_blind_until_it_is_mended(self, code):
        library = Library(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        surveyor = Surveyor(probe(library), timedelta(seconds=2), Roster(patience=1))
        surveyor.look()
        library.count_error = library.init = code
        blind = [surveyor.look() for _ in range(3)]
        library.count_error = library.init = None
        mended = surveyor.look()

        for survey in blind:
            assert [card.fault for card in survey.cards] == [CardFault.BLIND] * 2
            assert survey.problem
        assert [card.fault for card in mended.cards] == [None, None]

    def test_one_that_must_be_opened_anew_is(self):
        library = Library(Gpu("GPU-a"))
        nvml = probe(library)
        nvml.read()
        library.gpus[0].error = pynvml.NVML_ERROR_UNINITIALIZED
        blind = nvml.read().cards
        library.gpus[0].error = None
        nvml.read()

        assert blind[0].fault is CardFault.BLIND
        assert library.opened == 2

    def test_one_that_hangs_leaves_its_cards_blind_and_is_not_waited_for_again(self):
        library, release = Library(A), threading.Event()
        nvml = probe(library, timedelta(seconds=1))
        surveyor = Surveyor(nvml, timedelta(seconds=2))
        surveyor.look()
        library.nvmlDeviceGetCount = lambda: release.wait(60) and 1

        surveys = [surveyor.look() for _ in range(3)]
        release.set()

        for survey in surveys:
            assert [card.fault for card in survey.cards] == [CardFault.BLIND]
            assert "has not answered" in (survey.problem or "")


class TestErrorsOfTheLibrary:
    """Each error that the library is known to raise, by what becomes of the cards."""

    def two_cards(self) -> tuple[Library, Surveyor]:
        library = Library(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        surveyor = Surveyor(probe(library), timedelta(seconds=2), Roster(patience=2))
        surveyor.look()
        return library, surveyor

    def test_not_initialised_blinds_a_card_for_one_look_and_opens_the_library_anew(self):
        library, surveyor = self.two_cards()
        library.gpus[0].error = pynvml.NVML_ERROR_UNINITIALIZED
        blind = surveyor.look()
        library.gpus[0].error = None
        mended = surveyor.look()

        assert [card.fault for card in blind.cards] == [CardFault.BLIND, None]
        assert [card.fault for card in mended.cards] == [None, None]
        assert library.opened == 2

    def test_not_supported_is_not_reported_and_never_0_nor_a_fault(self):
        """Casebook C12."""
        library, surveyor = self.two_cards()
        library.gpus[0].utilisation = error(pynvml.NVML_ERROR_NOT_SUPPORTED)

        card = surveyor.look().cards[0]

        assert (card.utilisation, card.fault, card.used_mib) == (None, None, 5)

    def test_a_process_list_that_is_not_supported_is_told_apart_from_an_empty_one(self):
        """Casebook C12 and C13."""
        library, surveyor = self.two_cards()
        library.gpus[0].compute = library.gpus[0].graphics = error(pynvml.NVML_ERROR_NOT_SUPPORTED)

        hiding, listing = surveyor.look().cards

        assert (hiding.processes, hiding.hides_processes, hiding.fault) == ([], True, None)
        assert (listing.processes, listing.hides_processes) == ([], False)

    def test_a_lost_gpu_is_lost_and_the_other_is_read(self):
        """Casebook C05."""
        library, surveyor = self.two_cards()
        library.gpus[0].error = pynvml.NVML_ERROR_GPU_IS_LOST

        lost, fine = surveyor.look().cards

        assert (lost.fault, fine.fault) == (CardFault.LOST, None)
        assert lost.uuid == "GPU-a"

    def test_a_gpu_that_is_silently_not_listed_is_blind_then_lost_and_never_absent(self):
        """Casebook C06."""
        library, surveyor = self.two_cards()
        gone = library.gpus.pop()
        faults = [by_uuid(surveyor.look().cards)["GPU-b"].fault for _ in range(3)]
        library.gpus.append(gone)

        assert faults == [CardFault.BLIND, CardFault.LOST, CardFault.LOST]
        assert by_uuid(surveyor.look().cards)["GPU-b"].fault is None

    def test_a_version_mismatch_blinds_every_card_and_says_in_a_sentence_what_mends_it(self):
        """Casebook C10."""
        library, surveyor = self.two_cards()
        library.count_error = library.init = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH

        survey = surveyor.look()

        assert [card.fault for card in survey.cards] == [CardFault.BLIND] * 2
        assert survey.problem == (
            "the NVIDIA driver and its library differ in version (an unattended upgrade?); "
            "leases are kept, and a restart of the machine, once its jobs are done, mends it"
        )

    def test_a_timeout_of_the_library_blinds_that_card_alone(self):
        """Casebook C11."""
        library, surveyor = self.two_cards()
        library.gpus[0].error = pynvml.NVML_ERROR_TIMEOUT

        assert [card.fault for card in surveyor.look().cards] == [CardFault.BLIND, None]

    def test_a_call_that_never_returns_blinds_that_card_alone_within_the_deadline(self):
        """Casebook C11."""
        library = Library(Gpu("GPU-a"), Gpu("GPU-b", bus="00000000:86:00.0"))
        surveyor = Surveyor(probe(library, timedelta(seconds=1)), timedelta(seconds=2))
        surveyor.look()
        library.gpus[0].hold = threading.Event()
        surveys = [surveyor.look() for _ in range(2)]
        library.gpus[0].hold.set()

        assert [[card.fault for card in survey.cards] for survey in surveys] == [[CardFault.BLIND, None]] * 2
        assert "has not answered" in (surveys[1].cards[0].problem or "")

    def test_a_driver_that_is_not_loaded_is_one_sentence_and_no_card(self):
        library = Library(A)
        library.init = pynvml.NVML_ERROR_DRIVER_NOT_LOADED

        survey = Surveyor(probe(library), timedelta(seconds=2)).look()

        assert (survey.provider, survey.cards) == ("none", [])
        assert survey.problem == (
            "the NVIDIA driver is installed but not loaded. Everything else works; cards appear by themselves once its "
            "kernel module is loaded"
        )

    def test_no_permission_for_a_reading_is_not_reported(self):
        library, surveyor = self.two_cards()
        library.gpus[0].temperature = error(pynvml.NVML_ERROR_NO_PERMISSION)

        assert [(card.temperature, card.fault) for card in surveyor.look().cards] == [(None, None), (31, None)]

    def test_no_permission_for_a_whole_gpu_leaves_it_out_and_the_other_is_read(self):
        library = Library(Gpu("GPU-a", error=pynvml.NVML_ERROR_NO_PERMISSION), B)

        assert [card.uuid for card in read(library)] == ["GPU-b"]
