"""The commands about tasks: what they ask of the server, and how its answers read."""

import json

import pytest
import samples
from scripted_server import Command, ScriptedServer

from warploom.cli.exits import Exit
from warploom.domain.claims import ClaimAnswer
from warploom.domain.errors import NotReady, PlanRefused
from warploom.domain.projects import ProjectsAnswer, ProjectView
from warploom.domain.repairs import EscalationView
from warploom.domain.task_answers import AwaitAnswer, CommentView, ManyAnswer, NeedsView, ReadyAnswer
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.tickets import Me


def test_creating_sends_all_that_was_said_and_answers_in_two_lines(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tasks", samples.task())
    options = ["--depends-on", "T-1,t-2", "--depends-on", "T-3", "--cards", "2", "--model", "H200", "--priority", "p0"]
    options += ["--resource", "db", "--capability", "docker", "--key", "mine", "--deadline", "2026-12-24T18:00Z"]
    done = warploom("create", "train bert-base", "--done-when", "loss < 2", "--parent", "T-9", *options)
    assert done.stdout.splitlines() == ["ready   T-17 'train bert-base'", "next    Claim it with loom_claim."]
    body = server.calls[0].body
    assert (body["depends_on"], body["parent_id"], body["priority"]) == (["T-1", "t-2", "T-3"], "T-9", "p0")
    needs = body["needs"]
    assert (needs["cards"], needs["model"], needs["device"]) == (2, "H200", None)
    assert (needs["resources"], needs["capabilities"]) == (["db"], ["docker"])


def test_creating_the_same_task_twice_says_that_it_exists(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tasks", samples.task(deduplicated=True))
    assert warploom("create", "train bert-base").stdout.startswith("exists  T-17 'train bert-base'")


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", " "],
        ["create", "x", "--kind", "gpu"],
        ["create", "x", "--deadline", "soon"],
        ["create", "x", "--depends-on", "17a"],
        ["claim", "T-1", "--count", "2"],
        ["claim", "--count", "0"],
        ["claim", "--ttl", "1"],
        ["done", "T-17", "--output", "{"],
        ["fail", "T-17", "--reason", " "],
        ["fail", "T-17", "--reason", "x", "--class", "bad luck"],
        ["heartbeat", "T-17", "--percent", "101"],
        ["tasks", "--state", "tired"],
        ["status", "--filter", "tired"],
        ["status", "T-17", "--watch"],
        ["ideas", "--promote", "T-1", "--drop", "T-2"],
        ["dead-letter", "--retry", "T-1", "--skip", "T-2"],
        ["wait"],
        ["wait", "T-17", "--ready"],
        ["orchestrate", "--once", "--daemon"],
    ],
)
def test_nonsense_is_refused_in_two_sentences_without_a_call(
    server: ScriptedServer, warploom: Command, arguments: list[str]
) -> None:
    done = warploom(*arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (Exit.REFUSED, 2)
    assert server.calls == []


def test_a_whole_task_reads_from_top_to_bottom(server: ScriptedServer, warploom: Command) -> None:
    task = samples.task(
        TaskState.CLAIMED,
        context="Two lines\nof context",
        done_when="loss < 2",
        depends_on=["T-3", "T-4"],
        unmet=1,
        agent="claude-1",
        lease="L-42",
        expires_at=samples.NOW,
        attempts=1,
        max_attempts=3,
        needs=NeedsView(count=1, memory_mib=81_920, resources=["db"], capabilities=["docker"]),
        percent=40,
        note="epoch 2",
        output={"loss": 2.5},
        comments=[CommentView("bob", "mind\nthe gap", samples.NOW)],
    )
    server.on("GET", "/api/v1/tasks/T-17", task)
    assert warploom("status", "T-17", TZ="UTC").stdout.splitlines() == [
        "T-17  claimed  p1  train bert-base",
        "  held by   claude-1 (L-42 until 2026-03-01 14:20)",
        "  progress  40 %: epoch 2",
        "  after     T-3 and T-4 (1 not done)",
        "  needs     1 card of 80 GiB, db, host with docker",
        "  attempts  1 of 3",
        "  context   Two lines",
        "            of context",
        "  done when loss < 2",
        '  output    {"loss": 2.5}',
        "  bob       2026-03-01 14:20  mind",
        "            the gap",
        "next    Claim it with loom_claim.",
    ]


def test_a_list_stands_in_columns_and_asks_for_the_states(server: ScriptedServer, warploom: Command) -> None:
    held = samples.line(state=TaskState.CLAIMED, agent="claude-1", lease="L-42", percent=40, note="epoch 2")
    epic = samples.line("T-9", title="名前", kind=TaskKind.EPIC, reason="1 task is open", is_overdue=True)
    server.on("GET", "/api/v1/tasks", [held, epic])
    for arguments in (["tasks", "--state", "claimed,ready"], ["status", "--filter", "claimed,ready"]):
        assert warploom(*arguments).stdout.splitlines() == [
            "T-17  claimed        p1  train bert-base  claude-1 L-42  40 %: epoch 2",
            "T-9   ready    epic  p1  名前                            overdue · 1 task is open",
        ]
    assert {call.query for call in server.calls} == {"state=claimed%2Cready&limit=50"}


def test_an_empty_list_is_a_sentence(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/(tasks|dead-letters|escalations)", [])
    said = [warploom(*words).stdout for words in (["tasks"], ["tasks", "-s", "failed"], ["dead-letter"], ["ideas"])]
    assert said == [
        "There are no tasks yet.\n",
        "No task is failed.\n",
        "There are no dead letters.\n",
        'There are no ideas; `warploom idea "…"` notes one.\n',
    ]
    assert warploom("escalations").stdout == "Nobody has asked anything.\n"


def test_nothing_ready_says_why_and_points_at_the_ideas(server: ScriptedServer, warploom: Command) -> None:
    nothing = ReadyAnswer([], "Promote one of them.", "3 tasks wait for T-40", 4)
    server.on("GET", "/api/v1/tasks/ready", nothing)
    assert warploom("ready").stdout.splitlines() == [
        "nothing 3 tasks wait for T-40",
        "ideas   4 stand in the backlog; `warploom ideas` lists them",
        "next    Promote one of them.",
    ]


def test_a_claim_prints_all_that_is_needed_to_begin(server: ScriptedServer, warploom: Command) -> None:
    claim = samples.claimed(context="Use the new loader.", done_when="loss < 2")
    server.on("POST", "/api/v1/claims", ClaimAnswer([claim], "Begin.", [samples.queued()], notices=["hello"]))
    done = warploom("claim", "--ttl", "60", TZ="UTC")
    assert done.stdout.splitlines()[:3] == [
        "claimed T-17 'train bert-base' (lease L-42, yours until 2026-03-01 14:30, longer with every sign of life)",
        "  context   Use the new loader.",
        "  done when loss < 2",
    ]
    assert any(line.startswith("queued  T-18 on local/0") for line in done.stdout.splitlines())
    assert done.stderr == "notice  hello\n"
    assert server.calls[0].body == {"task": None, "count": 1, "life_seconds": 60.0, "project": None}


def test_nothing_to_claim_is_exit_7(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/claims", ClaimAnswer([], "Wait.", reason="every task is claimed"))
    done = warploom("claim")
    assert (done.returncode, done.stdout) == (Exit.NOTHING, "nothing every task is claimed\nnext    Wait.\n")


def test_each_ending_goes_to_its_own_door(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tasks/T-17/(done|fail|heartbeat|escalate)", samples.step())
    warploom("done", "T-17", "--lease", "L-42", "--output", '{"loss": 1.9}', "--branch-name", "fix/loader")
    warploom("fail", "T-17", "--reason", "no disk", "--class", "infra", WARPLOOM_LEASE="L-42")
    warploom("heartbeat", "T-17", "--progress", "half", "--percent", "50", "--lease", "l-42")
    warploom("escalate", "T-17", "Which data set?", "--lease", "L-42")
    assert [(call.path.rpartition("/")[2], call.body) for call in server.calls] == [
        ("done", {"lease": "L-42", "output": {"loss": 1.9}, "branch_name": "fix/loader"}),
        ("fail", {"lease": "L-42", "reason": "no disk", "failure": "infra"}),
        ("heartbeat", {"lease": "L-42", "progress": "half", "percent": 50}),
        ("escalate", {"lease": "L-42", "message": "Which data set?"}),
    ]


def test_a_step_says_the_state_the_lease_and_when_it_is_tried_again(server: ScriptedServer, warploom: Command) -> None:
    failed = samples.step(TaskState.FAILED, reason="no disk", retry_at=samples.NOW, lease=None)
    server.on("POST", "/api/v1/tasks/T-17/fail", failed)
    assert warploom("fail", "T-17", "--reason", "no disk", TZ="UTC").stdout.splitlines() == [
        "failed  T-17, tried again at 2026-03-01 14:20: no disk",
        "next    Claim the next one.",
    ]


def test_operators_commands_send_the_operators_key(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tasks/T-17/(reset|skip|answer)", samples.step(TaskState.READY))
    server.on("POST", "/api/v1/tasks/(T-17/cancel|batch-done)", ManyAnswer(["T-17"], {}, "Look at the graph."))
    keys = {"WARPLOOM_KEY": "agent-key", "WARPLOOM_OPERATOR_KEY": "operator-key"}
    for arguments in (
        ["reset", "T-17", "--clear-output"],
        ["cancel", "T-17", "--reason", "gone", "--cascade"],
        ["answer", "T-17", "the first"],
        ["dead-letter", "--retry", "T-17"],
        ["dead-letter", "--skip", "T-17"],
        ["dead-letter", "--cancel", "T-17"],
        ["batch-done", "T-17,T-18", "--dead-letter", "--reason", "gone"],
    ):
        assert warploom(*arguments, **keys).returncode == 0
    assert {call.headers["Authorization"] for call in server.calls} == {"Bearer operator-key"}
    assert [(call.path.rpartition("/")[2], call.body) for call in server.calls] == [
        ("reset", {"clear_output": True}),
        ("cancel", {"reason": "gone", "cascade": True}),
        ("answer", {"answer": "the first"}),
        ("reset", {"clear_output": False}),
        ("skip", {"reason": None}),
        ("cancel", {"reason": None, "cascade": True}),
        ("batch-done", {"tasks": ["T-17", "T-18"], "output": None, "reason": "gone", "dead_letter": True}),
    ]


def test_what_was_refused_in_part_is_told_for_each_and_is_exit_3(server: ScriptedServer, warploom: Command) -> None:
    answer = ManyAnswer(["T-17", "T-18"], {"T-19": "T-19 is done already."}, "Look at the graph.")
    server.on("POST", "/api/v1/tasks/batch-done", answer)
    done = warploom("batch-done", "T-17", "T-18", "T-19")
    assert done.returncode == Exit.REFUSED
    assert done.stdout.splitlines() == [
        "done    T-17 and T-18",
        "refused T-19: T-19 is done already.",
        "next    Look at the graph.",
    ]


def test_promoting_goes_on_after_a_refusal(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tasks/T-7/promote", NotReady("T-7 is no idea.", "List them."))
    server.on("POST", "/api/v1/tasks/T-9/promote", ManyAnswer(["T-9"], {}, "Claim them."))
    done = warploom("ideas", "--promote", "T-7,T-9")
    assert done.returncode == Exit.REFUSED
    assert done.stdout.splitlines() == ["promoted T-9", "refused T-7: T-7 is no idea.", "next    Claim them."]


def test_an_idea_that_is_refused_does_not_unsay_what_was_promoted(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tasks/T-7/promote", ManyAnswer(["T-7"], {}, "Claim them."))
    refused = ManyAnswer([], {"T-9": "There is no task T-9."}, "Nothing was changed.")
    server.on("POST", "/api/v1/tasks/T-9/promote", refused)
    assert warploom("ideas", "--promote", "T-7,T-9").stdout.splitlines()[-1] == "next    Claim them."


def test_a_question_is_shown_with_the_way_to_answer_it(server: ScriptedServer, warploom: Command) -> None:
    asked = EscalationView("T-17", "train", "claude-1", "Which one?\nA or B?", samples.NOW)
    told = EscalationView("T-18", "eval", "codex-1", "Why?", samples.NOW, "Because.", "ann", samples.NOW)
    server.on("GET", "/api/v1/escalations", [asked, told])
    assert warploom("escalations", TZ="UTC").stdout.splitlines() == [
        "T-17  'train'  claude-1 asked 2026-03-01 14:20",
        "    > Which one?",
        "    > A or B?",
        '    next  warploom answer T-17 "…"',
        "T-18  'eval'  codex-1 asked 2026-03-01 14:20",
        "    > Why?",
        "    ann answered 2026-03-01 14:20",
        "    > Because.",
    ]


def test_updating_sends_only_what_was_given(server: ScriptedServer, warploom: Command) -> None:
    server.on("PATCH", "/api/v1/tasks/T-17", samples.task())
    warploom("update", "T-17", "--priority", "p0", "--context", "", "--depends-on", "")
    body = server.calls[0].body
    assert {name: value for name, value in body.items() if value is not None} == {
        "priority": "p0",
        "context": "",
        "depends_on": [],
    }


def test_hostile_titles_and_comments_are_inert(server: ScriptedServer, warploom: Command) -> None:
    evil = "\x9b31m[bold red]x[/] \x1b[2J\r\u202e"
    task = samples.task(title=evil, context=evil, output=evil, comments=[CommentView(evil, evil, samples.NOW)])
    server.on("GET", "/api/v1/tasks/T-17", task)
    server.on("GET", "/api/v1/tasks", [samples.line(title=evil, note=evil)])
    for done in (warploom("status", "T-17"), warploom("tasks")):
        assert "[bold red]x[/]" in done.stdout
        assert all(line.isprintable() for line in done.stdout.splitlines())
        assert not any(mark in done.stdout for mark in "\x9b\x1b\r\u202e")


def test_json_is_the_answer_itself(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/tasks/T-17", samples.task())
    server.on("GET", "/api/v1/tasks", [samples.line()])
    assert json.loads(warploom("status", "T-17", "--json").stdout)["task"] == "T-17"
    assert json.loads(warploom("tasks", "--json").stdout)[0]["state"] == "ready"


def test_waiting_for_tasks_ends_when_all_are_over(server: ScriptedServer, warploom: Command) -> None:
    open_line, done_line = samples.line(state=TaskState.CLAIMED), samples.line(state=TaskState.DONE)
    other = samples.line("T-18", TaskState.DONE, title="eval")
    server.on(
        "GET", "/api/v1/tasks/wait", AwaitAnswer([open_line, other], True), AwaitAnswer([done_line, other], False)
    )
    done = warploom("wait", "T-17", "T-18")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["done    T-17 'train bert-base'", "done    T-18 'eval'"]
    assert done.stderr.splitlines()[0] == "claimed T-17 'train bert-base'"


def test_waiting_for_a_task_that_is_no_ticket_is_exit_4_when_it_was_given_up(
    server: ScriptedServer, warploom: Command
) -> None:
    server.on("GET", "/api/v1/tasks/wait", AwaitAnswer([samples.line(state=TaskState.CANCELLED, reason="gone")], False))
    done = warploom("wait", "T-17")
    assert (done.returncode, done.stdout) == (Exit.ENDED, "cancelled T-17 'train bert-base': gone\n")


def test_a_work_task_on_somebody_elses_card_is_waited_for_until_it_is_over(
    server: ScriptedServer, warploom: Command
) -> None:
    server.on("GET", "/api/v1/tickets/T-17", samples.active(ticket="T-17", is_task=True))
    server.on("GET", "/api/v1/me", Me("S-1", "ann", "default", samples.NOW, [], [], [], "Go on."))
    server.on("GET", "/api/v1/tasks/wait", AwaitAnswer([samples.line(state=TaskState.DONE)], False))
    done = warploom("wait", "T-17")
    assert (done.returncode, done.stdout) == (0, "done    T-17 'train bert-base'\n")


def test_a_work_task_on_ones_own_card_is_granted(server: ScriptedServer, warploom: Command) -> None:
    own = samples.active(ticket="T-17", is_task=True)
    server.on("GET", "/api/v1/tickets/T-17", own)
    server.on("GET", "/api/v1/me", Me("S-1", "ann", "default", samples.NOW, [own], [], [], "Go on."))
    done = warploom("wait", "T-17")
    assert (done.returncode, "export CUDA_DEVICE_ORDER" in done.stdout) == (0, True)


def test_waiting_for_something_to_claim_ends_when_there_is(server: ScriptedServer, warploom: Command) -> None:
    there = ReadyAnswer([samples.line()], "Claim it.")
    server.on("GET", "/api/v1/tasks/ready/wait", ReadyAnswer([], "Wait."), there)
    done = warploom("wait", "--ready")
    assert (done.returncode, done.stdout) == (0, "T-17  ready  p1  train bert-base\nnext    Claim it.\n")
    server.on("GET", "/api/v1/tasks/ready/wait", ReadyAnswer([], "Wait."))
    assert warploom("wait", "--ready", "--timeout", "0").returncode == Exit.TIMED_OUT


def test_every_fault_of_a_plan_has_a_line(server: ScriptedServer, warploom: Command) -> None:
    refused = PlanRefused("The plan has 2 faults:\n- a has no title\n- cycle: a -> b -> a", "Mend them all.")
    server.on("POST", "/api/v1/tasks", refused)
    done = warploom("create", "x")
    assert done.stderr.splitlines() == [
        "The plan has 2 faults:",
        "- a has no title",
        "- cycle: a -> b -> a",
        "Mend them all.",
    ]


def test_the_rack_ends_with_how_far_the_project_is(server: ScriptedServer, warploom: Command) -> None:
    counts = {"done": 3, "ready": 2, "dead_letter": 1, "idea": 5}
    project = ProjectView(
        "default", None, samples.NOW, counts, open=3, done=3, percent=50, is_current=True, escalations=1
    )
    other = ProjectView("other", None, samples.NOW, counts, open=3, done=3, percent=50)
    server.on("GET", "/api/v1/rack", samples.rack(samples.lane()))
    server.on("GET", "/api/v1/projects", ProjectsAnswer([other, project], "Go on."))
    assert warploom("status").stdout.splitlines()[-1] == (
        "project default: 3 of 6 tasks done (50 %) · 2 ready · 1 dead letter · 1 question open"
    )
