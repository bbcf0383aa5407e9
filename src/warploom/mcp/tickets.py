"""The gpu tools that ask for cards and say where a ticket stands."""

from warploom.domain.identifiers import parse_ticket
from warploom.domain.sessions import Actor
from warploom.domain.standings import Wish
from warploom.domain.tickets import read_wish
from warploom.mcp.answers import Answer, ticket_answer
from warploom.mcp.callers import Desk


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
            minutes: Your honest estimate of the run. It orders nothing and ends nothing; others' ETAs use it.
            priority: "p2" is normal; "p0" and "p1" go ahead only when the user says it is urgent.
            env_style: "uuid", or "index" for programs that need numbers in CUDA_VISIBLE_DEVICES.
            purpose: A key for this run; give a new one for a second run of the same job at the same time.
        """
        wish = Wish(job, device, cards, memory_gib, model, minutes, priority, env_style, purpose)

        async def work(actor: Actor) -> Answer:
            home = self._desk.caller().host
            return ticket_answer(await self._desk.app.tickets.request(actor, read_wish(wish), home))

        return await self._desk.serve(work)

    async def gpu_explain(self, ticket: str) -> Answer:
        """Say why a ticket waits: the reason, what is ahead of it, when it starts and how that is known.

        Call it when the user asks why something waits, or to read a lease's export variables again. Do not poll it:
        `warploom wait <ticket>` in the background wakes you.

        Args:
            ticket: The ticket's number, such as T-17.
        """

        async def work(actor: Actor) -> Answer:
            return ticket_answer(await self._desk.app.tickets.explain(actor, parse_ticket(ticket)), chain=True)

        return await self._desk.serve(work)
