"""The skill that agents load says what the product says."""

import re
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from warploom.assets import asset_dir
from warploom.cli.main import COMMANDS
from warploom.domain.grants import grant_lines
from warploom.domain.standings import Standing, TicketAnswer
from warploom.domain.toolsets import Toolset
from warploom.mcp.door import tools_of

TEXT = (asset_dir("skills") / "warploom" / "SKILL.md").read_text(encoding="utf-8")
LOOP = {"loom_ready", "loom_claim", "loom_heartbeat", "loom_done", "loom_fail", "loom_escalate", "loom_me"}


def _offer(**changes: object) -> TicketAnswer:
    facts: dict[str, object] = {
        "ticket": "T-18",
        "title": "eval-sweep",
        "state": Standing.OFFERED,
        "next": "",
        "cards": ["local/0"],
        "lease": "L-57",
        "export": {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": "GPU-5f3a…",
            "WARPLOOM_LEASE": "L-57",
        },
        "expires_at": datetime(2026, 11, 30, 14, 23, 10, tzinfo=UTC),
    }
    return TicketAnswer(**(facts | changes))  # pyright: ignore[reportArgumentType]


def test_the_skill_introduces_itself_in_its_frontmatter() -> None:
    front = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", TEXT)

    assert front is not None
    assert front[1] == "warploom"
    assert len(front[2]) <= 1024


def test_the_skill_names_every_gpu_tool_the_whole_loop_of_a_task_and_nothing_that_is_not_there() -> None:
    tools = {toolset: {tool.__name__ for tool in each} for toolset, each in tools_of(cast(Any, None)).items()}
    named = set(re.findall(r"\b(?:gpu|loom)_[a-z]+", TEXT))

    assert named >= tools[Toolset.GPU] | LOOP
    assert named <= tools[Toolset.GPU] | tools[Toolset.GRAPH]


def test_the_skill_names_only_commands_that_exist() -> None:
    named = set(re.findall(r"`warploom ([a-z]+)", TEXT))

    assert "wait" in named
    assert named <= set(COMMANDS)


def test_the_skill_quotes_a_grant_word_for_word() -> None:
    assert "\n".join(grant_lines(_offer())) in TEXT


def test_a_lease_that_is_already_active_has_no_deadline_in_its_words() -> None:
    lines = grant_lines(_offer(state=Standing.ACTIVE, cards=["local/0", "local/1"]))

    assert lines[0] == "Your cards are ready: local/0 and local/1 (lease L-57, yours until you release it)."


@pytest.mark.parametrize("state", [Standing.QUEUED, Standing.PARKED, Standing.ENDED])
def test_a_ticket_without_a_grant_has_no_words_of_one(state: Standing) -> None:
    assert grant_lines(_offer(state=state)) == []
