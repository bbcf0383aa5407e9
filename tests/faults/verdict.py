"""The judge: which grants went onto cards that had been taken for too long to be overlooked."""

from collections.abc import Iterable
from dataclasses import dataclass

from faults.truth import Spell, unbroken

LOOK_SECONDS = 0.5
"""A look at the cards, and the way of what it saw to the server, may take this long beside two survey intervals."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease that was granted or offered on cards, at a Unix time that no jump of the database's clock moves."""

    lease: str
    cards: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Violation:
    """A grant onto a card that could not have been observed clear within two survey intervals."""

    grant: Grant
    card: str
    taken_for: float
    spells: list[Spell]

    @property
    def sentence(self) -> str:
        """Say it in one line."""
        causes = "; ".join(spell.cause for spell in self.spells)
        return (
            f"{self.grant.lease} was granted on {self.card}, which had been taken for {self.taken_for:.2f} s: {causes}"
        )


def judge(grants: Iterable[Grant], spells: Iterable[Spell], survey_seconds: float) -> list[Violation]:
    """Return every grant onto a card that was taken without a break for two survey intervals and one look."""
    known, most = list(spells), 2 * survey_seconds + LOOK_SECONDS
    found: list[Violation] = []
    for grant in grants:
        for card in grant.cards:
            against = [spell for spell in known if spell.card == card and spell.lease != grant.lease]
            since, chain = unbroken(against, grant.at)
            if grant.at - since > most:
                found.append(Violation(grant, card, grant.at - since, chain))
    return found
