"""Reads NVIDIA cards through NVML; one card that hangs, fails or is gone never hides the others."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar, cast

import psutil
import pynvml  # pyright: ignore[reportMissingTypeStubs]  (it ships none)

from warploom.domain.errors import ProviderMissing
from warploom.domain.hosts import CardFact, CardFault, ProcessFact, ProcessKind
from warploom.domain.instances import INSTANCES_FROM
from warploom.host.guard import Guard, reason_of
from warploom.host.nvml_xids import XidWatch
from warploom.host.probe import Proof, Provider, Reading
from warploom.host.processes import ProcessBook
from warploom.host.proofs import Prover
from warploom.host.roster import faulty

T = TypeVar("T")

DEADLINE = timedelta(seconds=2)
_DRIVER: Final = "driver"
_UNNAMED: Final = "NVIDIA GPU"
_MIB: Final = 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Slot:
    """One physical GPU: its cards are itself, or its MIG instances. Their indices are not yet the host's."""

    pci_bus_id: str
    cards: list[CardFact]


class NvmlProbe:
    """The cards of the NVIDIA driver, asked off the main thread and with a deadline.

    Indices follow the PCI bus order, as CUDA's do under CUDA_DEVICE_ORDER=PCI_BUS_ID. A GPU in MIG mode is not listed;
    its instances are, numbered from 100 on per GPU, so that no GPU's own number depends on another's instances.
    `library` is the pynvml module, or a stand-in with its functions that raises its errors.
    """

    def __init__(
        self,
        book: ProcessBook,
        library: Any = pynvml,
        deadline: timedelta = DEADLINE,
        prover: Prover | None = None,
    ) -> None:
        self._book = book
        self._nvml = library
        self._guard = Guard(deadline)
        self._prover = prover or Prover()
        self._must_reopen = True
        self._driver: str | None = None
        self._slots: dict[int, _Slot] = {}
        self._nameless: set[int] = set()
        self._known: dict[str, CardFact] = {}
        self._xids = XidWatch(library)

    def describe(self) -> Provider:
        """Name the driver; raise ProviderMissing when there is none."""
        self._ask_driver(self._open)
        return Provider("nvidia", self._driver)

    def read(self) -> Reading:
        """Look at every card; raise ProviderMissing when there is no driver."""
        count = self._ask_driver(self._count)
        if isinstance(count, Exception):
            return Reading([], self._reason(count))
        calls = {f"card {slot}": partial(self._read_slot, slot) for slot in range(count)}
        answers = list(self._guard.run(calls).values())
        for slot, answer in enumerate(answers):
            self._keep(slot, answer)
        return Reading(self._with_xids(self._numbered(count)))

    def prove(self, uuid: str) -> Proof:
        """Use a card a little through CUDA; meanwhile the process that does so is left out of what is read."""
        return self._prover.prove(uuid)

    def _ask_driver(self, call: Callable[[], T]) -> T | Exception:
        answer = self._guard.run({_DRIVER: call})[_DRIVER]
        if isinstance(answer, Exception) and _code(answer) in _MISSING:
            self._must_reopen = True
            raise ProviderMissing(*_MISSING[_code(answer)])
        return answer

    def _open(self) -> None:
        """Open the library, anew after an error that only a new start mends, such as a driver that was reloaded."""
        if not self._must_reopen:
            return
        self._xids.close()
        with contextlib.suppress(pynvml.NVMLError):
            self._nvml.nvmlShutdown()
        self._nvml.nvmlInit()
        self._driver = self._reported(self._nvml.nvmlSystemGetDriverVersion)
        self._must_reopen = False

    def _count(self) -> int:
        self._open()
        return self._nvml.nvmlDeviceGetCount()

    def _keep(self, slot: int, answer: _Slot | Exception) -> None:
        """Remember what a slot answered. One that fails before it ever told which card it is can only be logged."""
        known = self._slots.get(slot)
        if isinstance(answer, _Slot):
            self._slots[slot] = answer
        elif known is not None:
            self._slots[slot] = replace(known, cards=[self._unread(card, answer) for card in known.cards])
        elif slot not in self._nameless:
            self._nameless.add(slot)
            log.warning("Card %s does not tell which it is: %s.", slot, self._reason(answer))

    def _numbered(self, count: int) -> list[CardFact]:
        present = {slot: self._slots[slot] for slot in range(count) if slot in self._slots}
        order = sorted(present, key=lambda slot: present[slot].pci_bus_id) if len(present) == count else range(count)
        return [
            replace(card, index=place if card.parent_uuid is None else (place + 1) * INSTANCES_FROM + card.index)
            for place, slot in enumerate(order)
            if slot in present
            for card in present[slot].cards
        ]

    def _with_xids(self, cards: list[CardFact]) -> list[CardFact]:
        """Add what the driver told of each GPU; an Xid of a GPU that is divided counts for all of its instances."""
        told = {gpu: self._xids.take(gpu) for gpu in {card.parent_uuid or card.uuid for card in cards}}
        return [replace(card, xids=told[card.parent_uuid or card.uuid]) for card in cards]

    def _read_slot(self, slot: int) -> _Slot:
        self._xids.collect(slot)
        handle = self._nvml.nvmlDeviceGetHandleByIndex(slot)
        uuid = self._nvml.nvmlDeviceGetUUID(handle)
        self._xids.listen(slot, uuid, handle)
        pci_bus_id = self._nvml.nvmlDeviceGetPciInfo(handle).busId
        current, _ = self._reported(self._nvml.nvmlDeviceGetMigMode, handle) or (0, 0)
        if not current:
            return _Slot(pci_bus_id, [self._card(handle, CardFact(uuid, 0, _UNNAMED, 0, pci_bus_id))])
        instances = [
            self._card(
                instance, CardFact(self._nvml.nvmlDeviceGetUUID(instance), number, _UNNAMED, 0, pci_bus_id, uuid)
            )
            for number, instance in self._instances(handle)
        ]
        return _Slot(pci_bus_id, instances)

    def _instances(self, parent: Any) -> list[tuple[int, Any]]:
        numbers = range(self._nvml.nvmlDeviceGetMaxMigDeviceCount(parent))
        handles = [self._reported(self._nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, number) for number in numbers]
        return [(number, handle) for number, handle in enumerate(handles) if handle is not None]

    def _card(self, handle: Any, card: CardFact) -> CardFact:
        known = self._known.get(card.uuid)
        named = card if known is None else replace(card, model=known.model, memory_mib=known.memory_mib)
        try:
            read = self._with_readings(handle, named)
        except Exception as error:
            if _code(error) is None:
                raise
            return self._unread(named, error)
        self._known[card.uuid] = read
        return read

    def _unread(self, card: CardFact, error: Exception) -> CardFact:
        fault = CardFault.LOST if _code(error) == pynvml.NVML_ERROR_GPU_IS_LOST else CardFault.BLIND
        return faulty(card, fault, self._reason(error))

    def _reason(self, error: Exception) -> str:
        """Say in a sentence why something could not be read; an error of the whole library makes it open anew."""
        self._must_reopen |= _code(error) in _CLOSED
        return _SENTENCES.get(_code(error)) or reason_of(error)

    def _with_readings(self, handle: Any, card: CardFact) -> CardFact:
        nvml = self._nvml
        memory = self._memory(handle)
        processes = self._processes(handle)
        if memory is None and processes is None:
            return faulty(card, CardFault.BLIND, "the driver reports neither its memory nor its processes")
        utilisation = self._reported(nvml.nvmlDeviceGetUtilizationRates, handle)
        return replace(
            card,
            model=self._reported(nvml.nvmlDeviceGetName, handle) or card.model,
            memory_mib=_machine_memory_mib() if memory is None else memory.total // _MIB,
            used_mib=None if memory is None else _mib(memory.used),
            utilisation=None if utilisation is None else utilisation.gpu,
            temperature=self._reported(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            ecc_errors=self._reported(
                nvml.nvmlDeviceGetTotalEccErrors,
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            processes=processes or [],
            hides_processes=processes is None,
        )

    def _memory(self, handle: Any) -> Any | None:
        """Read version 2, which leaves out what the driver keeps for itself; older drivers have only version 1."""
        newer = self._reported(self._nvml.nvmlDeviceGetMemoryInfo, handle, self._nvml.nvmlMemory_v2)
        return self._reported(self._nvml.nvmlDeviceGetMemoryInfo, handle) if newer is None else newer

    def _processes(self, handle: Any) -> list[ProcessFact] | None:
        """List compute and graphics processes (one that is both counts as compute); None when neither is reported."""
        found: dict[int, ProcessFact | None] = {}
        is_reported = False
        for kind, call in (
            (ProcessKind.COMPUTE, self._nvml.nvmlDeviceGetComputeRunningProcesses),
            (ProcessKind.GRAPHICS, self._nvml.nvmlDeviceGetGraphicsRunningProcesses),
        ):
            listed: list[Any] | None = self._reported(call, handle)
            is_reported = is_reported or listed is not None
            for each in listed or []:
                if each.pid in self._prover.pids:
                    continue
                used = None if each.usedGpuMemory is None else _mib(each.usedGpuMemory)
                found.setdefault(each.pid, self._book.fact(each.pid, kind, used))
        return [fact for fact in found.values() if fact is not None] if is_reported else None

    def _reported(self, call: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return call(*arguments)
        except pynvml.NVMLLibraryMismatchError:
            return None
        except Exception as error:
            if _code(error) not in _NOT_REPORTED:
                raise
            return None


_CLOSED: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_NOT_REPORTED: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
_MISSING: Final[dict[int | None, tuple[str, str]]] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "no NVIDIA driver found (libnvidia-ml.so.1).",
        "Everything else works; try WARPLOOM_FAKE_GPUS=2 warploom up",
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA driver is installed but not loaded.",
        "Everything else works; cards appear by themselves once its kernel module is loaded",
    ),
}
_SENTENCES: Final[dict[int | None, str]] = {
    pynvml.NVML_ERROR_GPU_IS_LOST: (
        "it has fallen off the bus; a restart of the machine, once its other jobs are done, may bring it back"
    ),
    pynvml.NVML_ERROR_RESET_REQUIRED: "the driver says that it must be reset, which its administrator decides",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA driver and its library differ in version (an unattended upgrade?); "
        "leases are kept, and a restart of the machine, once its jobs are done, mends it"
    ),
}


def _code(error: Exception) -> int | None:
    """Return NVML's number for an error; None for one that is not NVML's."""
    return cast(int | None, getattr(error, "value", None)) if isinstance(error, pynvml.NVMLError) else None


def _mib(size: int) -> int:
    """Return bytes as MiB, rounded up, so that a little memory in use is never shown as none."""
    return -(-size // _MIB)


def _machine_memory_mib() -> int:
    """Return the machine's own memory: a card that reports none of its own shares it."""
    return psutil.virtual_memory().total // _MIB
