"""What people read is true: links lead somewhere, and commands, targets, settings and tools exist."""

import re
from pathlib import Path

import pytest
from checkout import CHECKOUT, DOCS, name_of, pages, text_of
from test_reference_entries import tools

from warploom.cli.main import COMMANDS
from warploom.config import PREFIX, SETTINGS

PAGES = pages()
TARGETS = set(re.findall(r"(?m)^([a-z-]+):.*## ", text_of(CHECKOUT / "Makefile")))
KNOWN_SETTINGS = {PREFIX + setting.name.upper() for setting in SETTINGS} | {"WARPLOOM_LEASE"}


def code_of(page: Path) -> str:
    """Return what a page shows as code: its blocks and its `spans`."""
    text = text_of(page)
    blocks = re.findall(r"(?ms)^ *```.*?^ *```", text)
    spans = re.findall(r"`[^`\n]+`", re.sub(r"(?ms)^ *```.*?^ *```", "", text))
    return "\n".join([*blocks, *spans])


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ +(.+?) *$", re.sub(r"(?ms)^ *```.*?^ *```", "", text_of(page)))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_within_the_checkout_leads_somewhere(page: Path) -> None:
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", text_of(page))
    broken: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link or link.startswith("mailto:"):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_is_shown_exists(page: Path) -> None:
    shown = re.findall(r"(?:^|[`$(&;|] *|\s)(?:\.venv/bin/)?(?<!from )warploom ([a-z][a-z-]*)\b", code_of(page))
    assert sorted(set(shown) - set(COMMANDS)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_target_that_is_shown_exists(page: Path) -> None:
    assert sorted(set(re.findall(r"(?m)(?:`|^\s*|\$ )make ([a-z-]+)\b", code_of(page))) - TARGETS) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    assert sorted(set(re.findall(r"\bWARPLOOM_[A-Z0-9_]+\b", text_of(page))) - KNOWN_SETTINGS) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_tool_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"\b((?:gpu|loom)_[a-z]+)\b", code_of(page)))
    assert sorted(named - set(tools())) == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [CHECKOUT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)\s#]+)", text_of(page))
        todo += [
            target for link in links if (target := (page.parent / link).resolve()).suffix == ".md" and target.exists()
        ]
    assert [name_of(page) for page in DOCS.rglob("*.md") if page.resolve() not in seen] == []


def test_decision_records_are_numbered_without_gaps_and_short() -> None:
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    assert [record.name for record in records if len(text_of(record).split()) > 420] == []


def test_the_changelog_says_what_is_unreleased() -> None:
    assert "## [Unreleased]" in text_of(CHECKOUT / "CHANGELOG.md")
