"""Calls about reservations: promise a card for a window, list what is promised, give it up."""

from warploom.client.calls import Calls, part, query_of
from warploom.domain.reservations import ReservationAnswer, ReservationView, ReservationWish


class ReservationCalls(Calls):
    """Calls about reservations."""

    def reservations(self) -> list[ReservationView]:
        """List those of all cards that are current or still to come, in order of time."""
        return self._call("GET", "/api/v1/reservations", list[ReservationView])

    def reserve(self, wish: ReservationWish) -> ReservationAnswer:
        """Reserve a named card for this caller's agent."""
        return self._call("POST", "/api/v1/reservations", ReservationAnswer, wish)

    def unreserve(self, reservation: str, *, preview: bool) -> ReservationAnswer:
        """Give a reservation up; with `preview` only say what that would mean."""
        path = f"/api/v1/reservations/{part(reservation)}{query_of(preview=preview)}"
        return self._call("DELETE", path, ReservationAnswer)
