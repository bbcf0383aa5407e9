"""The gpu tools that ask for cards, wait for them and say where a ticket stands."""

from typing import Final

from warploom.domain.calibrations import say_trust
from warploom.domain.deliveries import DeliveryWay
from warploom.domain.errors import MalformedInput
from warploom.domain.etas import EtaView, EtaWord
from warploom.domain.identifiers import parse_ticket
from warploom.domain.sessions import Actor
from warploom.domain.standings import Standing, TicketAnswer, Wish
from warploom.domain.tickets import read_wish
from warploom.mcp.answers import Answer, ticket_answer
from warploom.mcp.callers import Desk
from warploom.mcp.patience import patiently

LONGEST_WAIT_MINUTES: Final = 1440.0


class TicketTools:
    """Tools about tickets."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def gpu_request(
        self,
        job: str,
        device: str = "any",
        cards: int = 1,
        memory_gib: float | None = None,
        model: str | None = None,
        minutes: float | None = None,
        priority: str = "p2",
        env_style: str = "uuid",
        purpose: str | None = None,
    ) -> Answer:
        """Ask for a GPU before you run anything on one. Answers at once: a lease, or a place in the queue.

        With `state: active` the card is yours: put the variables in `export` before your command, and call gpu_release
        when the job ends. With `state: queued` run `warploom wait <ticket>` in the background and end your turn; it
        exits when the card is yours. A busy card means queueing for that card: never use another one, not even one in
        `also_free`, unless the user says so. Asking again for the same purpose returns the same ticket.

        Args:
            job: What you will run, in a few words that others who wait will read.
            device: The card the user named: "0", "local/0" or a UUID; several with commas; "any" if they named none.
            cards: How many cards of one host, with device "any"; you get all of them at once or wait.
            memory_gib: The memory each card must have, with device "any".
            model: Part of the card's model name, such as "H200", with device "any".
            minutes: Your honest estimate of the run. It ends nothing; others' ETAs use it, and only a run with minutes goes
                before a card's reservation.
            priority: "p2" is normal; "p0" and "p1" go ahead only when the user says it is urgent.
            env_style: "uuid", or "index" for programs that need numbers in CUDA_VISIBLE_DEVICES.
            purpose: A key for this run; give a new one for a second run of the same job at the same time.
        """
        wish = Wish(job, device, cards, memory_gib, model, minutes, priority, env_style, purpose)

        async def work(actor: Actor) -> Answer:
            home = self._desk.caller().host
            return ticket_answer(await self._desk.app.tickets.request(actor, read_wish(wish), home))

        return await self._desk.serve(work)

    async def gpu_wait(self, ticket: str, minutes: float = 720) -> Answer:
        """Wait until a ticket's card is yours. Stays open with a sign of progress every 20 seconds.

        Call it after gpu_request said `queued`, where your client turns a long call into a background task that reports
        back to you: end your turn then. Where it would keep you busy, or drops calls that are slow, run
        `warploom wait <ticket>` in the background instead. With `state: offered` the card is yours from your next call that
        names the lease, or when your job appears on the card: do one of them before `expires_at`. Waiting twice is safe; an
        answer that is still `queued` means that the time was up or the server restarted: call again.

        Args:
            ticket: The ticket's number, such as T-17.
            minutes: How long to wait at most, up to 1440; you keep your place in the queue afterwards.
        """

        async def work(actor: Actor) -> Answer:
            task, tickets = parse_ticket(ticket), self._desk.app.tickets
            found = await patiently(
                lambda seconds: tickets.wait(actor, task, seconds, DeliveryWay.GPU_WAIT), _waiting, _bounded(minutes)
            )
            return ticket_answer(found)

        return await self._desk.serve(work)

    async def gpu_explain(self, ticket: str) -> Answer:
        """Say why a ticket waits: the reason, what is ahead of it, when it starts and how that is known.

        Call it when the user asks why something waits, or to read a lease's export variables again. Do not poll it:
        `warploom wait <ticket>` in the background wakes you.

        Args:
            ticket: The ticket's number, such as T-17.
        """

        async def work(actor: Actor) -> Answer:
            found = await self._desk.app.tickets.explain(actor, parse_ticket(ticket))
            return ticket_answer(found, chain=True) | await self._trust(found.starts)

        return await self._desk.serve(work)

    async def _trust(self, starts: EtaView | None) -> Answer:
        """Say whether such estimates come true, where that is known."""
        record = await self._desk.app.calibrations.of_starts(starts.word) if starts else None
        return {"eta_trust": say_trust(record)} if record else {}


def _bounded(minutes: float) -> float:
    if not minutes >= 0:
        raise MalformedInput(f"{minutes:g} minutes cannot be waited.", f"Give 0 to {LONGEST_WAIT_MINUTES:.0f}.")
    return 60 * min(minutes, LONGEST_WAIT_MINUTES)


def _waiting(answer: TicketAnswer) -> str | None:
    if answer.state is not Standing.QUEUED:
        return None
    place = f"place {answer.place}, " if answer.place else ""
    return f"{place}{_starts(answer.starts)}because {answer.reason}"


def _starts(starts: EtaView | None) -> str:
    if starts is None:
        return ""
    return "starts unknown, " if starts.word is EtaWord.UNKNOWN else f"starts in {starts.text} ({starts.word}), "
