"""Tasks for tests: made, claimed and looked at by number."""

from typing import Any

from support.lab import Lab
from warploom.domain.failures import FailureClass
from warploom.domain.identifiers import LeaseId, TaskId
from warploom.domain.sessions import Actor
from warploom.domain.tasks import TaskState, TaskWish


def task_number(name: str) -> TaskId:
    return TaskId(int(name[2:]))


def lease_number(name: str) -> LeaseId:
    return LeaseId(int(name[2:]))


async def make(lab: Lab, actor: Actor, title: str, *upstreams: TaskId, **facts: Any) -> TaskId:
    wish = TaskWish(title, depends_on=[f"T-{upstream}" for upstream in upstreams], **facts)
    return task_number((await lab.app.tasks.create(actor, wish)).task)


async def state_of(lab: Lab, actor: Actor, task: TaskId) -> TaskState:
    return (await lab.app.tasks.read(actor, task)).state


async def finish(lab: Lab, actor: Actor, task: TaskId) -> None:
    await lab.app.claims.claim(actor, task)
    await lab.app.claims.done(actor, task, None)


async def give_up(lab: Lab, actor: Actor, task: TaskId) -> None:
    """Have a ready task fail for good."""
    await lab.app.claims.claim(actor, task)
    await lab.app.claims.fail(actor, task, None, "wrong from the start", FailureClass.USER_ERROR)
