"""What the people of a host say of its cards: how fast each is, and whose processes keep nobody away."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, cast

from warploom.domain.errors import MalformedInput
from warploom.domain.texts import NAME_LIMIT, spoken_list

LEAST_WEIGHT: Final = 0.01
LARGEST_WEIGHT: Final = 1000.0
MOST_IGNORED: Final = 32
MOST_RULES: Final = 3 * MOST_IGNORED
"""On one card, from its index, its UUID and every card."""
MOST_TABLES: Final = 256
EVERY_CARD: Final = "*"
_KINDS: Final = ("user", "command")
_UUIDS: Final = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True)
class CardRules:
    """The rules of one card. A weight is its speed beside the others'; what `ignore` matches keeps nobody away."""

    weight: float = 1.0
    ignore: list[str] = field(default_factory=list[str])

    def ignores(self, user: str | None, command: str | None) -> bool:
        """Say whether a process is to be ignored; one whose user and command cannot be read never is."""
        return any(_matches(rule, user or "", command or "") for rule in self.ignore)

    def __str__(self) -> str:
        """Say the rules as people do: 'weight 2, ignores user:root and Xorg'."""
        return f"weight {self.weight:g}, ignores {spoken_list(self.ignore) or 'nobody'}"


NO_RULES: Final = CardRules()


def _matches(rule: str, user: str, command: str) -> bool:
    """`command:` is a pattern for the program or the whole line; a bare word is the program's very name."""
    program = command.partition(" ")[0]
    kind, colon, rest = rule.partition(":")
    if not colon:
        return bool(program) and program == rule
    if kind == "user":
        return bool(user) and user == rest
    return bool(program) and (fnmatchcase(program, rest) or fnmatchcase(command, rest))


@dataclass(frozen=True, slots=True)
class CardTable:
    """One table as it was written; what it leaves out is None."""

    weight: float | None
    ignore: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class CardTables:
    """Every `[cards.…]` table of a host, by an index, the beginning of a UUID, or `*`."""

    entries: Mapping[str, CardTable] = field(default_factory=dict[str, CardTable])

    def rules_for(self, index: int, uuid: str) -> CardRules:
        """Put together what holds for a card: the weight of its nearest table (UUID, then index, then `*`), and every rule."""
        longest_first = sorted((key for key in self.entries if key.startswith(_UUIDS)), key=len, reverse=True)
        keys = [*(key for key in longest_first if uuid.startswith(key)), str(index), EVERY_CARD]
        near = [self.entries[key] for key in keys if key in self.entries]
        weight = next((entry.weight for entry in near if entry.weight is not None), NO_RULES.weight)
        ignore = dict.fromkeys(rule for entry in near for rule in entry.ignore or ())
        return CardRules(weight, list(ignore)[:MOST_RULES])


NO_TABLES: Final = CardTables()


def read_card_tables(cards: object, path: Path) -> CardTables:
    """Read what `cards` is in a `config.toml`; raise MalformedInput with one sentence for the first thing wrong."""
    tables = _table(cards, "cards", path)
    if len(tables) > MOST_TABLES:
        raise MalformedInput(
            f"{path} has {len(tables)} tables in [cards].", f"Keep to {MOST_TABLES}; `*` is every card."
        )
    return CardTables({_read_key(key, path): _read_entry(key, entry, path) for key, entry in tables.items()})


def _table(value: object, name: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedInput(f"{name} in {path} is no table.", "Write it as [cards.0], with weight and ignore below.")
    return cast("dict[str, Any]", value)


def _read_key(key: str, path: Path) -> str:
    is_index = key.isascii() and key.isdigit() and len(key) <= 5 and str(int(key)) == key
    if is_index or key == EVERY_CARD or (key.startswith(_UUIDS) and len(key) <= NAME_LIMIT):
        return key
    raise MalformedInput(
        f"cards.{key[:NAME_LIMIT]} in {path} names no card.",
        'Name it by its index (cards.0), by the beginning of its UUID (cards.GPU-1a2b) or all of them (cards."*").',
    )


def _read_entry(key: str, value: object, path: Path) -> CardTable:
    entry = _table(value, f"cards.{key}", path)
    unknown = sorted(set(entry) - {"weight", "ignore"})
    if unknown:
        raise MalformedInput(
            f"cards.{key}.{unknown[0]} in {path} is nothing that a card can have.", "There are weight and ignore."
        )
    return CardTable(_read_weight(key, entry.get("weight"), path), _read_ignore(key, entry.get("ignore"), path))


def _read_weight(key: str, value: object, path: Path) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (is_number and LEAST_WEIGHT <= cast("float", value) <= LARGEST_WEIGHT):
        return None if value is None else float(cast("float", value))
    raise MalformedInput(
        f"cards.{key}.weight in {path} is {value!r}.",
        f"Give a number from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}; 1 is usual, 2 is twice as fast.",
    )


def _read_ignore(key: str, value: object, path: Path) -> tuple[str, ...] | None:
    if value is None:
        return None
    rules = cast("list[object]", value) if isinstance(value, list) else None
    if rules is None or len(rules) > MOST_IGNORED:
        raise MalformedInput(
            f"cards.{key}.ignore in {path} is no list of rules.", f'Write up to {MOST_IGNORED}, such as ["user:root"].'
        )
    return tuple(_read_rule(key, rule, path) for rule in rules)


def _read_rule(key: str, value: object, path: Path) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if is_rule(text):
        return text
    raise MalformedInput(
        f"cards.{key}.ignore in {path} has {str(value)[:NAME_LIMIT]!r}, which is no rule.",
        "Write user:NAME, command:PATTERN, or a program's name.",
    )


def is_rule(text: str) -> bool:
    """Say whether a text is a rule: `user:NAME`, `command:PATTERN`, or the one word that a program is called."""
    kind, colon, rest = text.partition(":")
    is_named = (kind in _KINDS and rest.strip() == rest) if colon else " " not in text
    return text.isprintable() and 0 < len(text) <= NAME_LIMIT and is_named and (not colon or bool(rest))
