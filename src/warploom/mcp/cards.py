"""The gpu tool that looks at cards."""

from typing import Any

from warploom.domain.calibrations import Foretold, say_trust
from warploom.domain.cards import CardLane, Rack
from warploom.domain.sessions import Actor
from warploom.mcp.answers import Answer, plain
from warploom.mcp.callers import Desk


class CardTools:
    """Tools about cards."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def gpu_survey(self) -> Answer:
        """See every card as it is right now: free or not and why, who holds it, how far along, until when, who waits.

        Call it before you plan GPU work, or when the user asks about the cards. You need not call it before
        gpu_request, which tells you the same about the card you ask for. An empty `cards` means that no host agent has
        reported; tell the user. ETAs carry their word: measured (from real steps), history (earlier runs of the
        same purpose), declared (somebody's own estimate), unknown; `eta_trust` says how often they came true.
        """

        async def work(_actor: Actor) -> Answer:
            return _rack(await self._desk.app.cards.survey())

        return await self._desk.serve(work)


def _rack(rack: Rack) -> Answer:
    answer: Answer = {"cards": [_lane(card) for host in rack.hosts for card in host.cards], "next": rack.next}
    silent = [host.host for host in rack.hosts if not host.is_present]
    problems = {host.host: host.problem for host in rack.hosts if host.problem}
    trust = [say_trust(record) for record in rack.calibration if record.foretold is Foretold.START]
    answer |= {"eta_trust": trust} if trust else {}
    return answer | ({"silent_hosts": silent} if silent else {}) | ({"problems": problems} if problems else {})


def _lane(lane: CardLane) -> dict[str, Any]:
    about: dict[str, Any] = {
        "card": lane.card,
        "uuid": lane.uuid[:12],
        "model": lane.model,
        "memory_gib": round(lane.memory_mib / 1024, 1),
        "state": lane.state.value,
        "why": lane.say,
    }
    if lane.weight is not None:
        about["weight"] = lane.weight
    if lane.holder is not None:
        holder = lane.holder
        about["holder"] = plain(
            {
                "lease": holder.lease,
                "job": holder.title,
                "agent": holder.agent,
                "step": holder.step,
                "total": holder.total,
                "labels": [label.value for label in holder.labels],
                "runs_into": holder.runs_into,
            }
        )
        about |= {"free_in": lane.free.text, "eta_source": lane.free.word.value}
    if lane.reservations:
        about["reservations"] = plain(lane.reservations)
    if lane.waiting:
        about["waiting"] = lane.waiting
        about["queue"] = [
            {
                "place": place.place,
                "ticket": place.ticket,
                "job": place.title,
                "agent": place.agent,
                "starts_in": place.starts.text,
            }
            for place in lane.queue
        ]
    return about
