"""Every kind of step, and how often it is drawn beside the others."""

from typing import Final

from faults import doings, outages, troubles
from faults.doings import Step

_STEPS: Final[dict[Step, float]] = {
    doings.request: 55,
    doings.accept: 24,
    doings.hold: 22,
    doings.hold_late: 1.5,
    doings.crash: 4,
    doings.finish: 24,
    doings.release_early: 3,
    doings.fall_silent: 1.5,
    doings.leave: 3,
    doings.report: 3,
    troubles.foreign: 2,
    troubles.ghost: 1.5,
    troubles.lost: 0.7,
    troubles.missing: 0.7,
    troubles.blind: 0.7,
    troubles.hanging: 0.7,
    troubles.driver: 0.4,
    troubles.drain_slowly: 2,
    troubles.shuffle: 0.7,
    troubles.ecc: 0.5,
    troubles.drain: 0.8,
    troubles.quarantine: 0.5,
    outages.kill_host: 0.8,
    outages.remove_host: 0.4,
    outages.sleep_host: 0.8,
    outages.kill_server: 0.6,
    outages.kill_valkey: 0.3,
    outages.kill_postgres: 0.2,
    outages.jump: 0.8,
}
_NAMES: Final = {
    troubles.foreign: "foreign",
    troubles.ghost: "ghost",
    troubles.lost: "lost",
    troubles.missing: "missing",
    troubles.blind: "blind",
    troubles.hanging: "hanging",
}


def _name(step: Step) -> str:
    return _NAMES.get(step) or step.__name__


STEPS: Final[dict[str, Step]] = {_name(step): step for step in _STEPS}
WEIGHTS: Final[dict[str, float]] = {_name(step): weight for step, weight in _STEPS.items()}
