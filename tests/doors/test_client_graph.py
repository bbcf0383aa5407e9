"""The typed client over HTTP: every call about the task graph, to a real server process."""

from collections.abc import Generator

import pytest

from support.invariants import assert_whole
from support.serving import Caller, ServerProcess, server_processes
from warploom.client.connection import Client
from warploom.domain.callers import Caller as Identity
from warploom.domain.errors import CycleFound, LeaseLost, NotFound, NotReady, PlanRefused, Taken
from warploom.domain.repairs import RecoveryWord
from warploom.domain.tasks import NeedsWish, Priority, TaskChanges, TaskState, TaskWish


@pytest.fixture(scope="module")
def server(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServerProcess]:
    settings: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url}
    with server_processes(tmp_path_factory.mktemp("server"), settings) as (server,):
        Caller(server.url).survey(cards=1)
        yield server


@pytest.fixture
def client(server: ServerProcess, request: pytest.FixtureRequest) -> Generator[Client]:
    """A caller in a project of the test's own."""
    name = request.node.name[:60]
    with Client(server.url, Identity(session_key=name, agent="ada", project=name)) as client:
        yield client


@pytest.fixture
def other(server: ServerProcess, request: pytest.FixtureRequest) -> Generator[Client]:
    """Another agent in the same project."""
    name = request.node.name[:60]
    with Client(server.url, Identity(session_key=f"{name} bob", agent="bob", project=name)) as client:
        yield client


def test_a_task_is_written_changed_read_and_found(client: Client, module_database_url: str) -> None:
    needs = NeedsWish(device="0", resources=["db"])
    first = client.create_task(TaskWish("First", context="Why", done_when="When", minutes=5, needs=needs, key="one"))
    assert client.create_task(TaskWish("Again", key="one")).deduplicated
    second = client.create_task(TaskWish("Second", depends_on=[first.task], deadline="2030-01-01"))
    assert (second.state, second.unmet) == (TaskState.PENDING, 1)
    with pytest.raises(CycleFound, match=first.task):
        client.update_task(first.task, TaskChanges(depends_on=[second.task]))
    changed = client.update_task(second.task, TaskChanges(title="Next", priority="p0", depends_on=[]))
    assert (changed.title, changed.priority, changed.state) == ("Next", f"p{Priority.P0}", TaskState.READY)
    assert [each.task for each in client.tasks("ready,pending")] == [second.task, first.task]
    assert [each.task for each in client.ready().tasks] == [second.task, first.task]
    assert client.comment(first.task, "mind it").comments[0].text == "mind it"
    read = client.task(first.task)
    assert (read.context, read.done_when, read.creator, len(read.comments)) == ("Why", "When", "ada", 1)
    assert read.needs is not None
    assert (read.needs.cards, read.needs.resources) == (["local/0"], ["db"])
    assert client.wait_ready(1).tasks
    with pytest.raises(NotFound):
        client.task("T-999999")
    assert_whole(module_database_url)


def test_an_idea_is_noted_promoted_or_dropped(client: Client) -> None:
    one, two = client.idea("One", "because"), client.idea("Two")
    assert client.ready().ideas == 2
    assert client.promote(one.task).done == [one.task]
    assert client.drop(two.task).state is TaskState.CANCELLED
    assert [each.task for each in client.ready().tasks] == [one.task]


def test_tasks_are_claimed_shown_and_ended_in_each_way(client: Client, other: Client, module_database_url: str) -> None:
    done, failed, asked, *rest = [client.create_task(TaskWish(f"Task {number}")).task for number in range(5)]
    claim = client.claim(done, life_seconds=60).claims[0]
    with pytest.raises(Taken, match="ada"):
        other.claim(done)
    assert client.heartbeat_task(done, claim.lease, "half", 50).percent == 50
    assert client.wait_tasks([done], 0).timed_out
    assert client.done(done, claim.lease, {"empty": []}, "a-branch").state is TaskState.DONE
    assert not other.wait_tasks([done], 5).timed_out
    assert (client.task(done).output, client.task(done).branch) == ({"empty": []}, "a-branch")

    client.claim(failed)
    assert client.fail(failed, "no disk", "infra").retry_at is not None
    lost = client.claim(asked).claims[0]
    assert client.escalate(asked, "Which one?").state is TaskState.BLOCKED
    with pytest.raises(LeaseLost):
        client.done(asked, lost.lease)
    assert [(each.task, each.message) for each in client.escalations()] == [(asked, "Which one?")]
    assert client.answer(asked, "That one.").state is TaskState.READY
    assert other.claim_several([asked, *rest]).done == [asked, *rest]
    nothing = client.claim(count=3)
    assert (nothing.claims, bool(nothing.reason)) == ([], True)
    assert_whole(module_database_url)


def test_what_went_wrong_is_put_right(client: Client, module_database_url: str) -> None:
    wrong, behind, *rest = [client.create_task(TaskWish(f"Task {number}")).task for number in range(4)]
    client.update_task(behind, TaskChanges(depends_on=[wrong]))
    client.claim(wrong)
    assert client.fail(wrong, "nonsense", "user_error").state is TaskState.DEAD_LETTER
    assert [each.task for each in client.dead_letters()] == [wrong]
    assert client.task(behind).state is TaskState.BLOCKED
    assert "nonsense" in client.explain_task(wrong).reason
    assert wrong in client.explain_task(behind).reason
    assert client.reset(wrong, clear_output=True).state is TaskState.READY
    assert client.skip(wrong, "no need").state is TaskState.CANCELLED
    assert client.task(behind).state is TaskState.READY
    with pytest.raises(NotReady):
        client.answer(behind, "what?")
    client.claim(behind)
    assert [line.word for line in client.recover().lines] == [RecoveryWord.ACTIVE]
    assert [line.done for line in client.recover(execute=True).lines] == [False]
    assert client.cancel(behind, "no use", cascade=True).done == [behind]
    assert client.batch_done(rest[:1], {"by": "decision"}).done == rest[:1]
    assert client.batch_done(rest[1:], reason="given up", dead_letter=True).done == rest[1:]
    assert_whole(module_database_url)


def test_a_graph_is_shown_explained_imported_and_exported(client: Client, module_database_url: str) -> None:
    plan = {"tasks": [{"key": "a", "title": "First"}, {"key": "b", "title": "Second", "depends_on": ["a"]}]}
    assert client.import_plan(plan, check_only=True).checked_only
    assert client.graph().total == 0
    imported = client.import_plan(plan)
    assert (imported.created, imported.edges) == (2, 1)
    graph = client.graph(around=imported.keys["b"], depth=1)
    assert {(edge.task, edge.upstream) for edge in graph.edges} == {(imported.keys["b"], imported.keys["a"])}
    assert imported.keys["a"] in client.explain_task(imported.keys["b"]).reason
    assert [task["title"] for task in client.export_plan()["tasks"]] == ["First", "Second"]
    with pytest.raises(PlanRefused, match="2 faults"):
        client.import_plan({"tasks": [{"key": "c"}, {"key": "c", "title": "x"}]})
    assert_whole(module_database_url)
