from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.errors import PlanRefused
from warploom.domain.identifiers import TaskId
from warploom.domain.plan_tasks import MOST_FAULTS, Neighbour, Surroundings
from warploom.domain.plans import (
    KeptTask,
    Plan,
    known_numbers,
    named_tasks,
    plan_of,
    read_plan,
    refuse_cycle,
    touched_tasks,
)
from warploom.domain.tasks import Priority, TaskKind, TaskState
from warploom.domain.tickets import CardNeed

DONE, OPEN = TaskState.DONE, TaskState.READY


def task(key: str = "a", title: str = "Title", **fields: Any) -> dict[str, Any]:
    return {"key": key, "title": title, **fields}


def read(*tasks: dict[str, Any], around: Surroundings | None = None) -> Plan:
    return read_plan({"tasks": list(tasks)}, around)


def faults(*tasks: Any, around: Surroundings | None = None) -> list[str]:
    with pytest.raises(PlanRefused) as refused:
        read_plan({"tasks": list(tasks)}, around)
    return [line.removeprefix("- ") for line in refused.value.cause.splitlines()[1:]]


def around(**neighbours: Neighbour) -> Surroundings:
    return Surroundings({each.task: each for each in neighbours.values()}, neighbours)


def test_a_plan_is_read_with_all_it_says() -> None:
    plan = read(
        task("epic", kind="epic"),
        task("a", parent="epic", priority=0, minutes=90, max_attempts=7, deadline="2027-01-01T00:00:00Z"),
        task("b", depends_on=["a", "a"], needs={"cards": 2, "memory_gib": 40, "capabilities": ["docker"]}),
    )
    first, second = plan.tasks[1], plan.tasks[2]
    assert (first.new.priority, first.new.run, first.new.max_attempts) == (Priority.P0, timedelta(minutes=90), 7)
    assert second.upstreams == ("a",)
    assert second.need == CardNeed((), 2, 40_960)
    assert plan.edges == [("epic", "a"), ("b", "a")]


def test_titles_may_repeat() -> None:
    assert len(read(task("a"), task("b")).tasks) == 2


def test_a_cycle_is_named_with_its_path() -> None:
    assert faults(task("a", depends_on=["c"]), task("b", depends_on=["a"]), task("c", depends_on=["b"])) == [
        "cycle: a -> c -> b -> a"
    ]


def test_a_task_that_waits_for_itself_is_a_cycle() -> None:
    assert faults(task("a", depends_on=["a"])) == ["cycle: a -> a"]


def test_a_task_that_waits_for_its_own_epic_is_a_cycle() -> None:
    epic, child = task("epic", kind="epic"), task("child", parent="epic", depends_on=["after"])
    assert faults(epic, child, task("after", depends_on=["epic"])) == ["cycle: epic -> child -> after -> epic"]


def test_every_cycle_is_named() -> None:
    assert faults(
        task("a", depends_on=["b"]),
        task("b", depends_on=["a"]),
        task("c", depends_on=["d", "a"]),
        task("d", depends_on=["c"]),
    ) == ["cycle: a -> b -> a", "cycle: c -> d -> c"]


def test_a_very_long_cycle_is_named_in_short() -> None:
    ring = [task(f"k{n}", depends_on=[f"k{(n + 1) % 500}"]) for n in range(500)]
    (fault,) = faults(*ring)
    assert fault.startswith("cycle: k0 -> k1 -> ")
    assert fault.endswith("… (500 tasks) -> k0")


def test_every_fault_is_named_at_once() -> None:
    assert faults(
        "nothing",
        task("a", "", priority="urgent", deadline="soon", max_attempts=0, minutes=-1, kind="job"),
        task("a", parent="b"),
        {"title": "no key"},
        {"key": "no title"},
        task("b", depends_on=["nobody", 7], needs={"cards": 2, "device": "0", "gpu": 1}),
        task("c", colour="red", context=["no text"], depends_on="b"),
        task("d", parent="b", needs={"resources": "staging", "memory_gib": -1}),
        task("e", kind="barrier", needs={"resources": ["staging"]}),
    ) == [
        "tasks[0] is no object",
        "tasks[1] 'a': The title is empty",
        "tasks[1] 'a': 'urgent' is not a priority",
        "tasks[1] 'a': 'job' is not a kind of task",
        "tasks[1] 'a': 'soon' is not a moment",
        "tasks[1] 'a': 0 attempts cannot be allowed",
        "tasks[1] 'a': -1 minutes is not a length of time",
        "tasks[2]: the key 'a' is used twice",
        "tasks[3] has no key",
        "tasks[4] 'no title' has no title",
        "tasks[5] 'b': depends_on is not a list of texts",
        "tasks[5] 'b': needs has no field 'gpu'; known: device, cards, memory_gib, model, resources, capabilities, env_style",
        "tasks[5] 'b': 1 cards are named but 2 asked for",
        "tasks[6] 'c' has no field 'colour'; known: key, title, context, done_when, priority, kind, parent, depends_on, "
        "needs, deadline, max_attempts, minutes",
        "tasks[6] 'c': context is not a text",
        "tasks[6] 'c': depends_on is not a list of texts",
        "tasks[7] 'd': needs: resources is not a list of texts",
        "tasks[7] 'd': -1 GiB is not an amount of memory",
        "tasks[8] 'e': A task of kind barrier needs nothing",
        "the parent 'b' of 'd' is no epic",
    ]


def test_unknown_keys_are_faults() -> None:
    assert faults(task("a", depends_on=["b", "T-4", "t4"], parent="epic")) == [
        f"'a' {verb} '{name}', which is no key of the plan or the project, and no task"
        for verb, name in (("depends on", "b"), ("depends on", "T-4"), ("depends on", "t4"), ("belongs to", "epic"))
    ]


@pytest.mark.parametrize("plan", [{}, {"tasks": []}, {"tasks": None}, {"tasks": {"a": {}}}])
def test_a_plan_without_tasks_is_refused(plan: dict[str, Any]) -> None:
    with pytest.raises(PlanRefused, match="the plan has no list of tasks"):
        read_plan(plan)


def test_a_plan_has_nothing_but_tasks() -> None:
    with pytest.raises(PlanRefused, match="the plan has no field 'version'; known: tasks"):
        read_plan({"tasks": [task()], "version": 3})


def test_a_plan_that_is_too_large_is_refused() -> None:
    found = faults(*(task(f"k{n}") for n in range(20_001)))
    assert found == ["20,001 tasks are more than a plan may have, 20,000"]


def test_a_plan_with_too_many_edges_is_refused() -> None:
    keys = [f"k{n}" for n in range(400)]
    found = faults(*(task(key) for key in keys), *(task(f"all{n}", depends_on=keys) for n in range(251)))
    assert found == ["100,400 dependencies are more than a plan may have, 100,000"]


def test_a_task_with_too_many_upstreams_is_told_of_barriers() -> None:
    keys = [f"k{n}" for n in range(1_001)]
    (found,) = faults(*(task(key) for key in keys), task("all", depends_on=keys))
    assert found.endswith(
        "1,001 dependencies are too many for one task, which may have 1,000; put a task of kind barrier between"
    )


def test_so_many_faults_that_nobody_reads_them_are_counted() -> None:
    found = faults(*(task(f"k{n}", "") for n in range(MOST_FAULTS + 50)))
    assert len(found) == MOST_FAULTS + 1
    assert found[-1] == "and 50 more"


def test_texts_that_are_too_long_are_refused() -> None:
    found = faults(task("k" * 301), task("b", "t" * 201), task("c", context="c" * 20_001))
    assert [fault.rpartition(": ")[2] for fault in found] == [
        "The key has 301 characters",
        "The title has 201 characters",
        "The context has 20,001 characters",
    ]


def test_a_key_cannot_forge_a_second_line() -> None:
    (found,) = faults(task("a\n- all is well\x1b[2J", "", depends_on=[]))
    assert "\x1b" not in found


def test_a_plan_may_name_what_is_there_by_key_and_by_number() -> None:
    there = around(
        old=Neighbour(TaskId(4), TaskKind.WORK, DONE), epic=Neighbour(TaskId(5), TaskKind.EPIC, TaskState.PENDING)
    )
    plan = read(task("a", depends_on=["old", "T-4"], parent="T-5"), around=there)
    assert plan.edges == [("a", TaskId(4)), (TaskId(5), "a")]


def test_the_keys_of_a_plan_come_before_numbers_of_tasks() -> None:
    there = Surroundings({TaskId(4): Neighbour(TaskId(4), TaskKind.WORK, OPEN)})
    assert read(task("T-4"), task("a", depends_on=["T-4"]), around=there).edges == [("a", "T-4")]


@pytest.mark.parametrize(
    ("neighbour", "fault"),
    [
        (Neighbour(TaskId(4), TaskKind.WORK, OPEN, is_here=False), "'a' depends on 'T-4', a task of another project"),
        (
            Neighbour(TaskId(4), TaskKind.IDEA, TaskState.IDEA),
            "'a' depends on T-4, which is only an idea; promote it first",
        ),
    ],
)
def test_some_tasks_cannot_be_depended_on(neighbour: Neighbour, fault: str) -> None:
    assert faults(task("a", depends_on=["T-4"]), around=Surroundings({neighbour.task: neighbour})) == [fault]


@pytest.mark.parametrize(
    ("neighbour", "fault"),
    [
        (Neighbour(TaskId(4), TaskKind.WORK, OPEN), "the parent 'T-4' of 'a' is no epic"),
        (Neighbour(TaskId(4), TaskKind.EPIC, DONE), "the epic 'T-4' is done: 'a' cannot belong to it any more"),
    ],
)
def test_some_tasks_cannot_be_parents(neighbour: Neighbour, fault: str) -> None:
    assert faults(task("a", parent="T-4"), around=Surroundings({neighbour.task: neighbour})) == [fault]


def test_what_is_there_gets_no_new_upstreams_but_an_epic_its_new_tasks() -> None:
    there = around(
        a=Neighbour(TaskId(1), TaskKind.WORK, TaskState.CLAIMED),
        epic=Neighbour(TaskId(2), TaskKind.EPIC, TaskState.PENDING),
    )
    plan = read(
        task("epic", kind="epic"),
        task("a", depends_on=["b"]),
        task("b"),
        task("c", parent="epic", depends_on=["a"]),
        around=there,
    )
    assert [new.key for new in plan.new] == ["b", "c"]
    assert plan.edges == [("c", "a"), ("epic", "c")]
    assert known_numbers(plan) == {"epic": 2, "a": 1}
    assert touched_tasks(plan) == [1, 2]


def test_barriers_and_epics_that_wait_for_nothing_are_met() -> None:
    there = around(done=Neighbour(TaskId(1), TaskKind.WORK, DONE), open=Neighbour(TaskId(2), TaskKind.WORK, OPEN))
    plan = read(
        task("later gate", kind="barrier", depends_on=["gate", "done"]),
        task("gate", kind="barrier"),
        task("waiting gate", kind="barrier", depends_on=["gate", "open"]),
        task("empty", kind="epic"),
        task("closed", kind="epic"),
        task("only", kind="barrier", parent="closed"),
        task("work"),
        around=there,
    )
    assert plan.met == {"gate", "later gate", "only", "closed"}
    assert {key: count for key, count in plan.unmet.items() if count} == {"waiting gate": 1}


def test_a_cycle_with_tasks_that_are_there_names_new_ones_by_key() -> None:
    refused = refuse_cycle("That would be a cycle: T-1 -> T-12 -> T-1.", {"new": TaskId(12)})
    assert "T-1 -> 'new' -> T-1." in refused.cause


def test_named_tasks_are_found_in_whatever_is_given() -> None:
    assert named_tasks({"tasks": "none"}) == ([], [])
    plan = {
        "tasks": [None, {"key": 3, "depends_on": "x"}, {"key": " a ", "depends_on": ["T-4", None], "parent": "T-0"}]
    }
    assert named_tasks(plan) == ([4], ["a", "T-0", "T-4"])


KEYS = st.integers(0, 30).map(lambda number: f"k{number}")
ENTRIES = st.fixed_dictionaries(
    {"key": KEYS, "title": st.text(min_size=1, max_size=5)},
    optional={
        "depends_on": st.lists(KEYS, max_size=3),
        "parent": KEYS,
        "kind": st.sampled_from(["work", "epic", "barrier"]),
    },
)


@given(st.lists(ENTRIES, max_size=12))
def test_whatever_is_read_has_no_cycle_and_no_loose_end(entries: list[dict[str, Any]]) -> None:
    try:
        plan = read(*entries)
    except PlanRefused:
        return
    waiting = {each.key: set[Any]() for each in plan.tasks}
    for owner, upstream in plan.edges:
        waiting[str(owner)].add(upstream)
    while free := [key for key, upstreams in waiting.items() if not upstreams]:
        waiting = {key: upstreams - set(free) for key, upstreams in waiting.items() if key not in free}
    assert waiting == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=4)
    )
)
def test_nonsense_is_refused_and_never_a_fault_of_ours(nonsense: Any) -> None:
    names = ("key", "title", "depends_on", "parent", "needs", "priority", "minutes", "max_attempts", "deadline", "kind")
    entry = dict.fromkeys(names, nonsense)
    for plan in (
        {"tasks": nonsense},
        {"tasks": [entry]},
        {"tasks": [task(needs={"cards": nonsense, "resources": nonsense})]},
    ):
        named_tasks(plan)
        with suppress(PlanRefused):
            read_plan(plan)


def kept(number: int, key: str | None = None, **facts: Any) -> KeptTask:
    plain: dict[str, Any] = {
        "kind": TaskKind.WORK,
        "title": f"task {number}",
        "context": None,
        "done_when": None,
        "priority": 2,
        "parent": None,
        "max_attempts": 3,
        "need_count": 0,
        "memory_mib": None,
        "model": None,
        "resources": [],
        "capabilities": [],
        "env_style": "uuid",
        "run": None,
        "deadline": None,
        "cards": [],
        "upstreams": [],
    }
    return KeptTask(task=TaskId(number), key=key, **(plain | facts))


def test_an_exported_plan_says_only_what_is_not_usual() -> None:
    tasks = [
        kept(3, "first"),
        kept(
            7,
            upstreams=[TaskId(3), TaskId(99)],
            max_attempts=5,
            run=timedelta(minutes=1.5),
            need_count=1,
            memory_mib=1536,
        ),
    ]
    assert plan_of(tasks, 3) == {
        "tasks": [
            {"key": "first", "title": "task 3"},
            {
                "key": "t7",
                "title": "task 7",
                "depends_on": ["first"],
                "needs": {"cards": 1, "memory_gib": 1.5},
                "max_attempts": 5,
                "minutes": 1.5,
            },
        ]
    }


def test_an_exported_plan_reads_back() -> None:
    exported = plan_of(
        [kept(1, kind=TaskKind.EPIC), kept(2, parent=TaskId(1), need_count=2, cards=["local/0", "local/1"])], 3
    )
    plan = read_plan(exported)
    assert plan.edges == [("t1", "t2")]
    assert plan.tasks[1].need == CardNeed(("local/0", "local/1"), 2)
