import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.errors import MalformedInput
from warploom.domain.graphs import (
    Graph,
    GraphEdge,
    GraphFormat,
    GraphNode,
    as_mermaid,
    as_summary,
    as_values,
    critical_path,
    parse_format,
    walk_graph,
)
from warploom.domain.identifiers import TaskId
from warploom.domain.leases import LeaseState
from warploom.domain.tasks import TaskKind, TaskState
from warploom.domain.waits import (
    MOST_BLOCKERS,
    Hold,
    Obstacle,
    Standing,
    say_capabilities,
    say_hold,
    say_obstacles,
    say_standing,
    tree_of,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOSTILE = [
    "<script>alert(1)</script>",
    '"]; click t1 "javascript:alert(1)"',
    'x"]\nend\nsubgraph evil',
    "%%{init: {'securityLevel': 'loose'}}%%",
    "`**bold** <img src=x onerror=alert(1)>`",
    "#lt;script#gt; &lt;b&gt; &#60;i&#62;",
    "ﬂ°°60¶ßscriptﬂ°°62¶ß",
    "a --> b; style t1 fill:#f00",
    "$$\\href{javascript:alert(1)}{x}$$",
    "fa:fa-bomb {{jinja}} {% raw %}",
    "\u202eesrever\u2028line",
]


def node(number: int, state: TaskState = TaskState.PENDING, title: str = "title", **facts: Any) -> GraphNode:
    return GraphNode(f"T-{number}", title, state, TaskKind.WORK, "p2", **facts)


def graph(*nodes: GraphNode, edges: list[tuple[int, int]] | None = None, **facts: Any) -> Graph:
    states = [each.state.value for each in nodes]
    return Graph(
        **{
            "project": "default",
            "nodes": list(nodes),
            "edges": [GraphEdge(f"T-{task}", f"T-{upstream}") for task, upstream in edges or []],
            "counts": {state: states.count(state) for state in sorted(set(states))},
            "total": len(nodes),
            "shown": len(nodes),
            "is_cut": False,
            **facts,
        }
    )


def test_mermaid_draws_what_is_done_first_before_what_waits() -> None:
    drawn = as_mermaid(
        graph(
            node(1, TaskState.CLAIMED, "train bert", agent="claude-1", percent=60, parent="T-3"),
            node(2, title="evaluate"),
            node(3, title="epic"),
            edges=[(2, 1), (3, 1)],
        )
    )
    assert drawn.splitlines()[:6] == [
        "flowchart LR",
        '  t1["T-1 train bert<br/>claimed#44; claude#45;1#44; 60 #37;"]:::claimed',
        '  t2["T-2 evaluate<br/>pending"]:::pending',
        '  t3["T-3 epic<br/>pending"]:::pending',
        "  t1 --> t2",
        "  t1 -.-> t3",
    ]


def test_mermaid_says_which_edges_were_skipped_and_that_it_was_cut() -> None:
    found = graph(node(1), node(2), total=9, is_cut=True)
    found.edges.append(GraphEdge("T-2", "T-1", is_waived=True))
    drawn = as_mermaid(found)
    assert "  %% 2 of 9 tasks are shown" in drawn
    assert "  t1 -. skipped .-> t2" in drawn


LABEL = re.compile(r'  t1\["T-1 (?P<title>(?:[^\W_]| |#[0-9]+;)*)<br/>ready(?P<rest>(?:[^\W_]| |#[0-9]+;)*)"\]:::ready')


@pytest.mark.parametrize("title", HOSTILE)
def test_no_syntax_of_mermaid_or_html_survives_in_a_label(title: str) -> None:
    lines = as_mermaid(graph(node(1, TaskState.READY, title))).splitlines()
    assert LABEL.fullmatch(lines[1]), lines[1]
    assert len(lines) == 10
    assert not re.search(r"ﬂ|#36;|#58;(?!#8288;| |#32;)", lines[1])


@given(st.text(max_size=80))
def test_whatever_a_title_says_its_label_is_one_line_of_letters_and_codes(title: str) -> None:
    lines = as_mermaid(graph(node(1, TaskState.READY, title))).split("\n")
    assert LABEL.fullmatch(lines[1]), lines[1]


def test_a_long_title_is_cut_in_a_label() -> None:
    assert "x" * 59 + "#8230;" in as_mermaid(graph(node(1, title="x" * 200)))


def test_a_graph_as_values_is_plain() -> None:
    values = as_values(graph(node(1), node(2), edges=[(2, 1)]))
    assert values["edges"] == [{"task": "T-2", "upstream": "T-1", "is_waived": False}]
    assert (values["nodes"][0]["task"], values["nodes"][0]["unmet"]) == ("T-1", 0)


def test_a_summary_counts_and_names_what_matters() -> None:
    said = as_summary(
        graph(
            node(1, TaskState.CLAIMED, "train", agent="claude-1", percent=60),
            node(2, title="evaluate"),
            node(3, TaskState.READY, "write"),
            node(4, TaskState.DEAD_LETTER, "broken"),
            node(5, TaskState.BLOCKED, culprit="T-4"),
            node(6, TaskState.BLOCKED, culprit="T-4"),
            node(7, TaskState.BLOCKED, "asks"),
            node(8, TaskState.DONE),
            edges=[(2, 1), (5, 4), (6, 5), (1, 8)],
        )
    )
    assert said.splitlines() == [
        "8 tasks in default: 3 blocked, 1 claimed, 1 dead_letter, 1 done, 1 pending, 1 ready",
        "Ready: T-3 'write'",
        "Claimed: T-1 'train' (claude-1, 60 %)",
        "Blocked by T-4: 2",
        "Blocked otherwise: T-7 'asks'",
        "Failed: T-4 'broken'",
        "Longest way to the end: 3 open tasks, T-4 -> T-5 -> T-6",
    ]


def test_a_summary_of_a_part_says_so() -> None:
    lines = as_summary(graph(node(1, TaskState.READY), around="T-1", total=40, is_cut=True)).splitlines()
    assert lines[0] == "40 tasks near T-1 in default: 1 ready"
    assert lines[1] == "Shown are 1, open ones first; what follows is about those."


def test_a_summary_of_nothing_is_short() -> None:
    assert as_summary(graph()) == "0 tasks in default: none\n"


def test_a_summary_lists_only_the_first_of_many() -> None:
    said = as_summary(graph(*(node(number, TaskState.READY) for number in range(1, 21))))
    assert "T-12 'title' and 8 more" in said


def test_the_longest_way_passes_over_what_is_over_or_waived() -> None:
    found = graph(
        *(node(number) for number in range(1, 5)), node(5, TaskState.DONE), edges=[(2, 1), (3, 2), (5, 3), (4, 5)]
    )
    found.edges.append(GraphEdge("T-4", "T-3", is_waived=True))
    assert critical_path(found) == ["T-1", "T-2", "T-3"]


def test_a_very_long_way_is_found_and_cut_when_said() -> None:
    found = graph(
        *(node(number) for number in range(1, 5001)), edges=[(number + 1, number) for number in range(1, 5000)]
    )
    assert len(critical_path(found)) == 5_000
    assert "5000 open tasks, T-1 -> T-2" in as_summary(found)


@pytest.mark.parametrize(("text", "found"), [("json", GraphFormat.JSON), (" Mermaid ", GraphFormat.MERMAID)])
def test_a_format_is_read(text: str, found: GraphFormat) -> None:
    assert parse_format(text) is found


def test_another_format_is_refused() -> None:
    with pytest.raises(MalformedInput, match="Use json, mermaid, summary"):
        parse_format("svg")


EDGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


@given(EDGES)
def test_a_walk_orders_every_node_behind_its_upstreams_or_finds_a_true_cycle(edges: list[tuple[int, int]]) -> None:
    walk = walk_graph(range(10), edges, 100)
    inside = [edge for edge in edges if max(edge) < 10]
    assert sorted(walk.order) == list(range(10))
    for cycle in walk.cycles:
        assert cycle[0] == cycle[-1]
        assert all(pair in inside for pair in itertools.pairwise(cycle))
    if not walk.cycles:
        assert all(walk.order.index(upstream) < walk.order.index(owner) for owner, upstream in inside)


@given(EDGES)
def test_without_the_last_edges_of_its_cycles_a_graph_has_none(edges: list[tuple[int, int]]) -> None:
    closing = {(cycle[-2], cycle[-1]) for cycle in walk_graph(range(13), edges, 100).cycles}
    assert walk_graph(range(13), [edge for edge in edges if edge not in closing], 100).cycles == []


def standing(number: int, state: TaskState = TaskState.PENDING, **facts: Any) -> Standing:
    return Standing(TaskId(number), f"task {number}", state, **facts)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"state": TaskState.CLAIMED, "agent": "claude-2", "percent": 60}, "claimed by claude-2, 60 %"),
        ({"state": TaskState.CLAIMED, "agent": "claude-2", "lease_state": LeaseState.OFFERED}, "offered to claude-2"),
        ({"state": TaskState.READY}, "ready, not claimed yet"),
        ({"state": TaskState.READY, "agent": "codex-1", "is_wanted": True}, "waiting for a card with codex-1"),
        ({"state": TaskState.BLOCKED, "culprit": TaskId(4)}, "blocked by T-4"),
        ({"state": TaskState.BLOCKED, "is_escalated": True}, "waiting for an answer"),
        ({"state": TaskState.BLOCKED, "is_parked": True}, "parked"),
        ({"state": TaskState.FAILED, "retry_at": NOW + timedelta(seconds=40)}, "failed, tried again in 40 s"),
        ({"state": TaskState.FAILED}, "given up"),
        ({"state": TaskState.DEAD_LETTER}, "given up"),
        ({"state": TaskState.CANCELLED}, "cancelled"),
        ({"state": TaskState.PENDING}, "waiting itself"),
        ({"state": TaskState.IDEA}, "only an idea"),
        ({"state": TaskState.DONE}, "done"),
    ],
)
def test_a_standing_is_said_in_a_few_words(facts: dict[str, Any], said: str) -> None:
    assert say_standing(standing(1, **facts), NOW) == said


def test_a_tree_names_each_task_once_and_decisions_first() -> None:
    standings = {
        each.task: each
        for each in (
            standing(2),
            standing(3, TaskState.READY),
            standing(4, TaskState.BLOCKED, is_escalated=True),
            standing(5, TaskState.CLAIMED, agent="a", lease=7),
        )
    }
    edges = {TaskId(1): [TaskId(2), TaskId(3)], TaskId(2): [TaskId(3), TaskId(4), TaskId(5)]}
    tree = tree_of(TaskId(1), standings, edges, NOW)
    assert [(each.task, each.behind, each.depth) for each in tree] == [
        ("T-3", "T-1", 1),
        ("T-2", "T-1", 1),
        ("T-4", "T-2", 2),
        ("T-5", "T-2", 2),
    ]
    assert tree[1].text == "T-2 'task 2' is waiting for T-4, T-5 and T-3"
    assert tree[3].text == "T-5 'task 5' is claimed by a with L-7"


def test_a_tree_is_cut_in_depth_and_number() -> None:
    standings = {TaskId(number): standing(number) for number in range(2, 60)}
    deep = {TaskId(number): [TaskId(number + 1)] for number in range(1, 59)}
    assert [each.depth for each in tree_of(TaskId(1), standings, deep, NOW)] == [1, 2, 3, 4]
    wide = {TaskId(1): list(standings)}
    assert len(tree_of(TaskId(1), standings, wide, NOW)) == MOST_BLOCKERS


def test_holds_and_capabilities_are_said() -> None:
    hold = Hold("staging", 3, TaskId(9), "claude-1", NOW)
    assert say_hold(hold) == "needs staging, which T-9 (claude-1, L-3) holds; its lease lasts until 12:00:00 UTC"
    assert say_capabilities(["docker", "git"], []) == "needs a host with docker and git, and no host has that"
    assert say_capabilities(["docker"], ["a", "b"]) == "needs a host with docker: a and b"


def test_obstacles_make_one_sentence() -> None:
    claimed = standing(40, TaskState.CLAIMED, agent="claude-2", percent=60)
    obstacles = [Obstacle("upstream", 3, None, claimed), Obstacle("card", 1, "local/0", None)]
    assert (
        say_obstacles(obstacles, NOW) == "3 tasks wait for T-40 (claimed by claude-2, 60 %), 1 waits for card local/0"
    )


@pytest.mark.parametrize(
    ("obstacle", "said"),
    [
        (
            Obstacle("upstream", 1, None, standing(4, TaskState.CLAIMED, agent="a")),
            "1 task waits for T-4 (claimed by a)",
        ),
        (Obstacle("card", 2, "any card", None), "2 tasks wait for any card"),
        (Obstacle("resource", 2, "staging", standing(4, agent="a")), "2 tasks wait for staging, which T-4 (a) holds"),
        (Obstacle("capability", 1, "docker", None), "1 task needs a host with docker"),
        (Obstacle("culprit", 2, None, standing(4, TaskState.CANCELLED)), "2 tasks are blocked by T-4 (cancelled)"),
        (Obstacle("answer", 1, None, None), "1 task waits for an answer"),
        (Obstacle("parked", 2, None, None), "2 tasks are parked"),
        (
            Obstacle("retry", 1, None, standing(4, TaskState.FAILED, retry_at=NOW + timedelta(minutes=2))),
            "1 task failed and is tried again in 2 min",
        ),
    ],
)
def test_each_obstacle_is_said(obstacle: Obstacle, said: str) -> None:
    assert say_obstacles([obstacle], NOW) == said


def test_without_obstacles_there_is_nothing_to_say() -> None:
    assert say_obstacles([], NOW) is None
    working = [Obstacle("upstream", 0, None, standing(n, TaskState.CLAIMED, agent="a")) for n in (1, 2)]
    assert say_obstacles(working, NOW) == (
        "T-1 (claimed by a) and T-2 (claimed by a) are being worked on, and nothing waits behind that"
    )
