"""The graph tools of whoever works on a task: claim it, show progress, finish it."""

from typing import Any

from warploom.domain.claims import read_count, read_life, read_percent
from warploom.domain.failures import parse_failure
from warploom.domain.identifiers import LeaseId, parse_lease, parse_task
from warploom.domain.sessions import Actor
from warploom.mcp.answers import Answer, claim_answer, plain
from warploom.mcp.callers import Desk


class ClaimTools:
    """Tools about claims."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def loom_claim(self, task_id: str | None = None, count: int = 1, ttl_seconds: float | None = None) -> Answer:
        """Take a task to work on: the next that fits, or the one you name. Nobody else can have it while you do.

        Work on what `task` says until its `done_when` holds; then call loom_done, or loom_fail or loom_escalate when
        you cannot. With `export`, put those variables before every command: the card is yours until then. With
        `queued`, the task waits for a card: run `warploom wait <ticket>` in the background and end your turn; do not
        start without it. `task: null` means that there is nothing to claim: `reason` says why, `next` what to do; end
        your turn rather than ask again and again.

        Args:
            task_id: The task's number, such as T-17; leave it out to take the next one.
            count: How many at once; take only what you will start on now.
            ttl_seconds: How long you may be silent before it goes to others; leave it out unless you know better.
        """

        async def work(actor: Actor) -> Answer:
            named = None if task_id is None else parse_task(task_id)
            life = read_life(ttl_seconds)
            return claim_answer(await self._desk.app.claims.claim(actor, named, read_count(count), life))

        return await self._desk.serve(work)

    async def loom_heartbeat(
        self, task_id: str, progress: str | None = None, percent: int | None = None, lease: str | None = None
    ) -> Answer:
        """Say that you still work on a task, and how far you are; others read it in loom_status.

        Call it at every step of a long task, or whenever `expires_at` comes near. `lease_lost` means that the task is
        no longer yours: stop working on it.

        Args:
            task_id: The task's number, such as T-17.
            progress: What you are at, in a few words that others will read.
            percent: How much is done, 0 to 100.
            lease: The lease's number, such as L-42; needed only from another session than the one that claimed.
        """

        async def work(actor: Actor) -> Answer:
            claims, task = self._desk.app.claims, parse_task(task_id)
            return plain(await claims.heartbeat(actor, task, _lease(lease), progress, read_percent(percent)))

        return await self._desk.serve(work)

    async def loom_done(
        self,
        task_id: str,
        output: dict[str, Any] | list[Any] | str | None = None,
        branch_name: str | None = None,
        lease: str | None = None,
    ) -> Answer:
        """Finish a task whose `done_when` holds. Gives its card back, and what waited for it can be claimed.

        Never call it for work that is only begun: loom_fail says that honestly. Make sure that your processes on its
        card have ended. Twice is success. `lease_lost` means that the task is no longer yours and nothing was
        changed: stop, and leave what you found as loom_comment.

        Args:
            task_id: The task's number, such as T-17.
            output: What those who go on from here need: results, files, decisions. Data, at most 100 kB.
            branch_name: The branch that holds the work.
            lease: The lease's number, such as L-42; needed only from another session than the one that claimed.
        """

        async def work(actor: Actor) -> Answer:
            task = parse_task(task_id)
            return plain(await self._desk.app.claims.done(actor, task, _lease(lease), output, branch_name))

        return await self._desk.serve(work)

    async def loom_fail(
        self, task_id: str, reason: str, failure_class: str | None = None, lease: str | None = None
    ) -> Answer:
        """Give a task back that you could not do, and say why. Gives its card back too.

        `state: failed` with `retry_at`: it is tried again then, by whoever claims it. `state: dead_letter`: it waits
        for a person; tell the user. When only an answer is missing, use loom_escalate instead.

        Args:
            task_id: The task's number, such as T-17.
            reason: What went wrong, for whoever tries next.
            failure_class: "user_error" when the task itself is wrong (not tried again), "infra", "oom_device",
                "oom_host", "interrupted"; left out it is "unknown".
            lease: The lease's number, such as L-42; needed only from another session than the one that claimed.
        """

        async def work(actor: Actor) -> Answer:
            task, failure = parse_task(task_id), parse_failure(failure_class)
            return plain(await self._desk.app.claims.fail(actor, task, _lease(lease), reason, failure))

        return await self._desk.serve(work)

    async def loom_escalate(self, task_id: str, message: str, lease: str | None = None) -> Answer:
        """Stop a task with a question that only a person can answer. It is `blocked` until somebody does.

        You no longer hold it: go on with another task. Call it for missing access, a decision, a contradiction in the
        task; not for what you can find out yourself.

        Args:
            task_id: The task's number, such as T-17.
            message: The question, with all that is needed to answer it.
            lease: The lease's number, such as L-42; needed only from another session than the one that claimed.
        """

        async def work(actor: Actor) -> Answer:
            return plain(await self._desk.app.claims.escalate(actor, parse_task(task_id), _lease(lease), message))

        return await self._desk.serve(work)


def _lease(name: str | None) -> LeaseId | None:
    return None if name is None else parse_lease(name)
