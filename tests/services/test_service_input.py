import re
from typing import Any

import pytest

from support.lab import Lab
from support.rows import Sql, whole_database
from warploom.domain.errors import Impossible, MalformedInput, NotFound, WarploomError

MEGABYTE = "x" * 1_000_000
HOSTILE = "a\x00b\n<script>alert(1)</script>\x1b[31m\u202e\ud800 ' ; drop table task; -- %s {x}"
TEXTS = ["job", "purpose", "model", "device", "priority", "env_style"]
INVISIBLE = ["\x00", "\x1b\x07", "\u200b\u202e", "\ud800"]

NONSENSE: list[dict[str, Any]] = [
    {"cards": 0},
    {"cards": -1},
    {"cards": 65},
    {"cards": 10**400},
    {"memory_gib": 0.0},
    {"memory_gib": -1.0},
    {"memory_gib": float("nan")},
    {"memory_gib": float("inf")},
    {"memory_gib": 1e300},
    {"minutes": 0.0},
    {"minutes": -5.0},
    {"minutes": 1e-300},
    {"minutes": float("nan")},
    {"minutes": float("inf")},
    {"minutes": float("-inf")},
    {"minutes": 1e300},
    {"device": ""},
    {"device": ","},
    {"device": ",".join(map(str, range(65)))},
    {"device": "0,1", "cards": 3},
    {"device": "0,local/0"},
    {"priority": ""},
    {"priority": "p3"},
    {"priority": "-1"},
    {"env_style": ""},
    {"env_style": "both"},
    {"job": ""},
    {"job": " \n\t "},
    {"job": "x" * 201},
    {"purpose": "x" * 301},
    {"model": "x" * 121},
]


async def refusal_of(lab: Lab, sql: Sql, wish: dict[str, Any]) -> WarploomError:
    """Ask for something, and return the refusal once it is sure that nothing was stored."""
    await lab.host()
    agent = await lab.agent()
    before = await whole_database(sql)
    with pytest.raises(WarploomError) as refusal:
        await lab.request(agent, **({"job": "train", "device": "0"} | wish))
    assert await whole_database(sql) == before
    said = str(refusal.value)
    said.encode()
    assert said.isprintable(), said
    assert len(said) < 400
    assert refusal.value.cause.endswith(".")
    assert refusal.value.next_step.endswith(".")
    return refusal.value


@pytest.mark.parametrize("wish", NONSENSE, ids=lambda wish: str(wish)[:40])
async def test_a_wish_that_makes_no_sense_is_refused_in_one_sentence_and_leaves_nothing(
    lab: Lab, sql: Sql, wish: dict[str, Any]
) -> None:
    assert isinstance(await refusal_of(lab, sql, wish), MalformedInput)


@pytest.mark.parametrize("field", TEXTS)
async def test_a_megabyte_of_text_is_refused_and_leaves_nothing(lab: Lab, sql: Sql, field: str) -> None:
    """Casebook C72."""
    refusal = await refusal_of(lab, sql, {field: MEGABYTE})
    assert isinstance(refusal, MalformedInput)
    if field in ("job", "purpose", "model"):
        assert re.search(r"at most \d", refusal.next_step), refusal.next_step


@pytest.mark.parametrize("text", INVISIBLE, ids=ascii)
@pytest.mark.parametrize("field", TEXTS)
async def test_a_text_of_nothing_but_control_marks_is_refused_and_leaves_nothing(
    lab: Lab, sql: Sql, field: str, text: str
) -> None:
    assert isinstance(await refusal_of(lab, sql, {field: text}), MalformedInput | NotFound)


@pytest.mark.parametrize("field", ["model", "device", "priority", "env_style"])
async def test_hostile_marks_where_a_word_is_expected_are_refused(lab: Lab, sql: Sql, field: str) -> None:
    wish = {field: HOSTILE} | ({"device": "any"} if field == "model" else {})
    assert isinstance(await refusal_of(lab, sql, wish), MalformedInput | NotFound | Impossible)


async def test_hostile_marks_in_a_title_become_one_clean_line_and_markup_stays_as_written(lab: Lab, sql: Sql) -> None:
    await lab.host()
    answer = await lab.request(await lab.agent(), HOSTILE, "0", purpose=f"{HOSTILE} again")
    assert answer.title == "a b <script>alert(1)</script> [31m ' ; drop table task; -- %s {x}"
    waiting = await lab.request(await lab.agent("claude-2"), "eval")
    assert waiting.reason is not None
    assert waiting.reason.isprintable()
    assert answer.title in waiting.reason
    lines, _ = await lab.app.events.page("0-0", 100)
    assert all(line.text.isprintable() for line in lines)
    assert any(answer.title in line.text for line in lines)
    stored = await sql.fetchrow("select title, purpose from task where id = 1")
    assert stored == (answer.title, f"{answer.title} again")


async def test_a_title_of_any_script_is_kept_whole(lab: Lab) -> None:
    await lab.host()
    title = "學習 тест naïve 🧵 100 % {agent}"
    assert (await lab.request(await lab.agent(), title)).title == title
    lines, _ = await lab.app.events.page("0-0", 100)
    assert lines[-1].text == f"claude-1 holds local/0 for '{title}'"


async def test_two_hundred_marks_are_a_title_and_one_more_is_none(lab: Lab) -> None:
    await lab.host()
    agent = await lab.agent()
    assert len((await lab.request(agent, "🧵" * 200)).title) == 200
    with pytest.raises(MalformedInput, match="201 characters"):
        await lab.request(agent, "🧵" * 201)
