"""What hosts may say: read once at the door, so that nothing behind it meets a number or a name it cannot keep."""

from dataclasses import replace

from warploom.domain.card_rules import LARGEST_WEIGHT, LEAST_WEIGHT, MOST_RULES, CardRules
from warploom.domain.errands import MOST_FATES, Outcome
from warploom.domain.errors import MalformedInput
from warploom.domain.hosts import CardFact, ProcessFact, Survey
from warploom.domain.processes import ProcessIdentity
from warploom.domain.tasks import read_names
from warploom.domain.texts import NAME_LIMIT, REASON_LIMIT, cut_line, one_line, optional_line
from warploom.domain.xids import LARGEST_XID, MOST_XIDS

MOST_CARDS = 256
MOST_PROCESSES = 500
MOST_ANCESTORS = 64
LARGEST_PID = 2**31 - 1
LARGEST_NUMBER = 2**63 - 1
_LARGEST_MIB = 2**31 - 1
_LARGEST_INDEX = 10_000
_PROBLEM_LIMIT = 400
_LAST_MOMENT = 253_402_300_799  # the end of the year 9999


def read_host_name(name: str) -> str:
    """Return a host's name as one clean word; raise MalformedInput when it could not be told from a card's."""
    clean = one_line(name, "host name", NAME_LIMIT)
    if "/" in clean or "," in clean or clean.isdigit():
        raise MalformedInput(f"{clean!r} cannot name a host.", "Use letters, digits, dots and dashes.")
    return clean


def read_survey(survey: Survey) -> Survey:
    """Check a survey and clean its texts; raise MalformedInput with one sentence for the first thing wrong.

    Names and numbers that do not fit are refused. What processes are called is cleaned and cut instead: anybody may name a
    process, and must not blind a host by it.
    """
    if len(survey.cards) > MOST_CARDS or any(len(card.processes) > MOST_PROCESSES for card in survey.cards):
        raise MalformedInput("That survey has too many cards or processes.", f"Send at most {MOST_CARDS} cards.")
    if len({card.uuid for card in survey.cards}) < len(survey.cards):
        raise MalformedInput("That survey names a card twice.", "Send each card once.")
    if not 0 <= survey.age_seconds <= 3600:
        raise MalformedInput("That survey is too old.", "Send each survey at once.")
    if not 0.05 <= survey.interval_seconds <= 3600:
        raise MalformedInput("That survey interval is out of range.", "Survey every 0.05 to 3600 seconds.")
    if survey.clock is not None and not 0 <= survey.clock <= _LAST_MOMENT:
        raise MalformedInput("The host's clock is out of range.", "Send its time in seconds since 1970, or none.")
    return replace(
        survey,
        provider=one_line(survey.provider, "provider", NAME_LIMIT),
        driver=optional_line(survey.driver, "driver version", NAME_LIMIT),
        version=one_line(survey.version, "version", NAME_LIMIT),
        problem=optional_line(survey.problem, "problem", _PROBLEM_LIMIT),
        capabilities=list(read_names(survey.capabilities, "capability")),
        limits=list(read_names(survey.limits, "limit")),
        cards=[_read_card(card) for card in survey.cards],
    )


def read_outcome(outcome: Outcome) -> Outcome:
    """Check what a host says and clean its texts; raise MalformedInput for numbers that cannot be."""
    if len(outcome.processes) > MOST_FATES:
        raise MalformedInput("That outcome has too many processes.", f"Send at most {MOST_FATES}.")
    for process in outcome.processes:
        _check_identity(ProcessIdentity(process.pid, process.started))
    return replace(
        outcome,
        processes=[
            replace(each, command=cut_line(each.command, NAME_LIMIT), user=cut_line(each.user, NAME_LIMIT))
            for each in outcome.processes
        ],
        text=cut_line(outcome.text, REASON_LIMIT),
        problem=cut_line(outcome.problem, REASON_LIMIT),
        followed=None,
    )


def _read_card(card: CardFact) -> CardFact:
    if one_line(card.uuid, "card UUID", 120) != card.uuid:
        raise MalformedInput(f"{card.uuid[:40]!r} is not a card's UUID.", "Send it as the driver tells it.")
    _check(card.index, "card index", 0, _LARGEST_INDEX)
    _check(card.memory_mib, "card memory", 0, _LARGEST_MIB)
    _check(card.used_mib, "used memory", 0, _LARGEST_MIB)
    _check(card.utilisation, "utilisation", 0, 100)
    _check(card.ecc_errors, "count of memory errors", 0, LARGEST_NUMBER)
    for xid in card.xids[:MOST_XIDS]:
        _check(xid, "Xid", 0, LARGEST_XID)
    return replace(
        card,
        model=one_line(card.model, "card model", 120),
        pci_bus_id=optional_line(card.pci_bus_id, "PCI bus id", 40),
        parent_uuid=optional_line(card.parent_uuid, "parent UUID", 120),
        problem=cut_line(card.problem, _PROBLEM_LIMIT),
        xids=card.xids[:MOST_XIDS],
        processes=[_read_process(process) for process in card.processes],
        rules=None if card.rules is None else _read_rules(card.rules),
    )


def _read_rules(rules: CardRules) -> CardRules:
    if not LEAST_WEIGHT <= rules.weight <= LARGEST_WEIGHT:
        raise MalformedInput("The weight of a card is out of range.", f"Send {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}.")
    if len(rules.ignore) > MOST_RULES:
        raise MalformedInput("A card has too many rules.", f"Send at most {MOST_RULES}.")
    return replace(rules, ignore=[one_line(rule, "rule", NAME_LIMIT) for rule in rules.ignore])


def _read_process(process: ProcessFact) -> ProcessFact:
    _check_identity(ProcessIdentity(process.pid, process.started))
    _check(process.memory_mib, "process memory", 0, _LARGEST_MIB)
    ancestors = process.ancestors[:MOST_ANCESTORS]
    for ancestor in ancestors:
        _check_identity(ancestor)
    return replace(
        process,
        user=cut_line(process.user, NAME_LIMIT),
        command=cut_line(process.command, NAME_LIMIT),
        lease=cut_line(process.lease, NAME_LIMIT),
        ancestors=ancestors,
    )


def _check_identity(process: ProcessIdentity) -> None:
    _check(process.pid, "process number", 1, LARGEST_PID)
    _check(process.started, "process start", 0, LARGEST_NUMBER)


def _check(value: int | None, field: str, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise MalformedInput(
            f"The {field} is out of range.", f"Send {least} to {most}, or nothing where it is unknown."
        )
