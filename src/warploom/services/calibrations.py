"""Calibration: how well each source of estimates has done."""

from warploom.domain.calibrations import MOST_PROMISES, WINDOW, Calibration, Foretold, SourceRecord, in_order
from warploom.domain.etas import EtaWord
from warploom.services.changes import Changes
from warploom.store import promises as promise_store


class CalibrationService:
    """Compares what was promised with what came."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def read(self) -> Calibration:
        """Return the record of every source whose promises came true lately."""
        async with self._changes.database.connection() as conn:
            return Calibration(in_order(await promise_store.read_records(conn, WINDOW, MOST_PROMISES)))

    async def of_starts(self, word: EtaWord) -> SourceRecord | None:
        """Return how well the starts of one source were foretold, or None where none has come true."""
        records = (await self.read()).records
        return next((each for each in records if each.foretold is Foretold.START and each.word is word), None)
