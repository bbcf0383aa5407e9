"""Applies the rules that the people of this host wrote into its `config.toml` to what is seen on its cards."""

import logging
from dataclasses import replace
from pathlib import Path

from warploom.config import read_file
from warploom.domain.card_rules import NO_TABLES, CardRules, CardTables
from warploom.domain.errors import MalformedInput
from warploom.domain.hosts import CardFact, ProcessFact

log = logging.getLogger(__name__)


class RulesFile:
    """The card tables of one `config.toml`, read again when the file was changed.

    One that makes no sense changes nothing: the rules that were read last stay in force, which is logged once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tables = NO_TABLES

    def read(self) -> CardTables:
        """Return what is in force now."""
        seen = self._version()
        if seen != self._seen:
            self._seen = seen
            self._tables = NO_TABLES if seen is None else self._load()
        return self._tables

    def _version(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> CardTables:
        try:
            return read_file(self._path.read_bytes().decode(), self._path).cards
        except (OSError, UnicodeDecodeError, MalformedInput) as error:
            log.warning("%s The rules that were read before stay in force.", error)
            return self._tables


def apply_rules(card: CardFact, tables: CardTables) -> CardFact:
    """Return a card with its rules, and with a mark on each of its processes that they cover."""
    rules = tables.rules_for(card.index, card.uuid)
    return replace(card, rules=rules, processes=[_marked(process, rules) for process in card.processes])


def _marked(process: ProcessFact, rules: CardRules) -> ProcessFact:
    is_ignored = process.lease is None and rules.ignores(process.user, process.command)
    return replace(process, is_ignored=True) if is_ignored else process
