"""The call that asks how far estimates can be trusted."""

from warploom.client.calls import Calls
from warploom.domain.calibrations import Calibration


class CalibrationCalls(Calls):
    """Calls about the record of estimates."""

    def calibration(self) -> Calibration:
        """How well each source of estimates has done lately."""
        return self._call("GET", "/api/v1/calibration", Calibration)
