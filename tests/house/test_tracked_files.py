"""What is committed belongs to the product: no path of somebody's machine, no registry's host, nothing generated."""

import re
from pathlib import Path

import pytest
from checkout import CHECKOUT, name_of, text_of, tracked_files

REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted",
    "registry." + "npmjs",
    "proxy." + "golang",
    "index" + ".crates",
    "conda" + ".anaconda",
    "arti" + "factory",
]
MACHINES = ["/wo" + "rk/", "/ro" + "ot/", "/Us" + "ers/", str(Path.home()), str(CHECKOUT)]
LARGEST_FILE = 1_000_000


def _mentions(words: list[str]) -> list[str]:
    found: list[str] = []
    for path in tracked_files():
        text = text_of(path)
        found += [f"{name_of(path)}: {word}" for word in words if len(word) > 1 and word in text]
    return found


def test_no_file_names_a_registry() -> None:
    assert _mentions(REGISTRIES) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    boundaries = re.compile(
        "|".join(rf"(?<![\w.~]){re.escape(word.rstrip('/'))}/" for word in MACHINES if len(word) > 2)
    )
    found = [f"{name_of(path)}: {hit}" for path in tracked_files() for hit in boundaries.findall(text_of(path))]
    assert found == []


@pytest.mark.parametrize(
    "pattern", [r"\.pyc$", r"(^|/)\.env$", r"\.log$", r"(^|/)\.DS_Store$", r"\.egg-info/", r"\.keep$"]
)
def test_nothing_generated_or_private_is_tracked(pattern: str) -> None:
    assert [name for name in map(name_of, tracked_files()) if re.search(pattern, name)] == []


def test_no_file_is_huge() -> None:
    assert [name_of(path) for path in tracked_files() if path.stat().st_size > LARGEST_FILE] == []


def test_text_files_end_with_a_newline() -> None:
    unfinished = [
        name_of(path)
        for path in tracked_files()
        if path.suffix in {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".sql", ".html", ".css"}
        and (text := text_of(path))
        and not text.endswith("\n")
    ]
    assert unfinished == []
