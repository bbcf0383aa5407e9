"""The tool that tells an agent where it stands."""

from warploom.domain.sessions import Actor
from warploom.mcp.answers import Answer, plain, proposal_lines, task_lines, ticket_answer
from warploom.mcp.callers import Desk


class SessionTools:
    """Tools about the caller's own session."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def loom_me(self) -> Answer:
        """List what you hold, what you wait for and what you have not been told: enough to go on from here.

        Call it first after your context was compacted or your client restarted, before you ask for anything again.
        `leases` are cards you hold, `tasks` tasks you have claimed that need none, `tickets` what you wait for. All three
        empty mean that you hold and wait for nothing. `reservations` are cards promised to you for a time; `proposals` wait for an answer
        (loom_reply where you are the `partner`), or are agreed and bind you.
        """

        async def work(actor: Actor) -> Answer:
            me = await self._desk.app.tickets.me(actor, [])
            return {
                **plain({"session": me.session, "agent": me.agent, "project": me.project, "at": me.at}),
                "leases": [ticket_answer(each) for each in me.leases],
                "tasks": task_lines(me.tasks),
                "tickets": [ticket_answer(each) for each in me.tickets],
                **plain({"reservations": me.reservations, "proposals": proposal_lines(me.proposals)}),
                "next": me.next,
            }

        return await self._desk.serve(work)
