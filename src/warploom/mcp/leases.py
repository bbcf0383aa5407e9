"""The gpu tools of a holder; each call that names an offered lease accepts it."""

from warploom.domain.breaker import read_job_failure
from warploom.domain.identifiers import parse_lease
from warploom.domain.sessions import Actor
from warploom.mcp.answers import Answer, lease_answer
from warploom.mcp.callers import Desk


class LeaseTools:
    """Tools about leases."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def gpu_release(
        self, lease: str, keep_place: bool = False, error: str | None = None, failure_class: str | None = None
    ) -> Answer:
        """Give the card back as soon as the job has ended, also when it failed: others wait for it.

        Make sure that your processes on the card have ended first; the next in the queue gets the card once it is
        observed clear. Releasing twice is success.

        Args:
            lease: The lease's number, such as L-42.
            keep_place: You still need the card, but not now: the first who waits goes before you (or whom you agreed to lend
                it to), and your ticket stands right behind.
            error: How the job failed, in its own words, such as the last line of its traceback: a card whose jobs fail
                in the words of broken hardware is taken out for everybody. Leave it out when the job went well.
            failure_class: "user_error" when the program was wrong, "infra", "oom_device", "oom_host", "interrupted";
                left out it is "unknown". Only with `error`.
        """

        async def work(actor: Actor) -> Answer:
            leases, failed = self._desk.app.leases, read_job_failure(error, failure_class)
            return lease_answer(await leases.release(actor, parse_lease(lease), failed, keeps_place=keep_place))

        return await self._desk.serve(work)

    async def gpu_extend(self, lease: str, minutes: float, reason: str) -> Answer:
        """Say that the job will run longer than you said, so that those who wait see an honest time.

        Nothing ends when the declared time passes; this only keeps the queue's estimates true. Call it as soon as you
        know.

        Args:
            lease: The lease's number, such as L-42.
            minutes: How many minutes more, from the end you declared (from now if that has passed).
            reason: Why, in a few words that others will read.
        """

        async def work(actor: Actor) -> Answer:
            return lease_answer(await self._desk.app.leases.extend(actor, parse_lease(lease), minutes, reason))

        return await self._desk.serve(work)

    async def gpu_report(self, lease: str, step: int, total: int | None = None) -> Answer:
        """Report how far a job is, so that ETAs are measured instead of guessed.

        Call it now and then for a long job that cannot report by itself; a Python job can call
        `warploom.report(step, total)` instead. Two reports are enough for a first rate.

        Args:
            lease: The lease's number, such as L-42.
            step: Steps done so far.
            total: Steps in all, if known.
        """

        async def work(actor: Actor) -> Answer:
            return lease_answer(await self._desk.app.leases.report(parse_lease(lease), step, total, actor))

        return await self._desk.serve(work)
