"""The compiled requirements fit pyproject.toml, hold a hash for everything, and name no place to fetch from."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from checkout import CHECKOUT, SOURCE
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = CHECKOUT / "requirements"
PYPROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
BASE, DEV, BUILD, BENCH = "base.txt", "dev.txt", "build.txt", "bench.txt"
WANTED = {
    BASE: PROJECT["dependencies"],
    DEV: [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]],
    BUILD: PYPROJECT["build-system"]["requires"],
    BENCH: PYPROJECT["dependency-groups"]["bench"],
}
STALE = "run `make lock`"


def entries(name: str) -> list[str]:
    """Return the logical lines of a requirements file: one pinned package with its hashes each."""
    text = re.sub(r"(?m)^\s*#.*$", "", (FOLDER / name).read_text(encoding="utf-8"))
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def pins(name: str) -> dict[str, Requirement]:
    found = [Requirement(entry.partition(" --hash")[0]) for entry in entries(name)]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def version_of(requirement: Requirement) -> str:
    (specifier,) = requirement.specifier
    assert specifier.operator == "==", f"{requirement} is not pinned"
    return specifier.version


@pytest.mark.parametrize("name", WANTED)
def test_every_dependency_is_pinned_within_its_range(name: str) -> None:
    pinned = pins(name)
    for wanted in map(Requirement, WANTED[name]):
        pin = pinned.get(canonicalize_name(wanted.name))
        assert pin is not None, f"{wanted.name} is not in {name}: {STALE}"
        assert wanted.specifier.contains(version_of(pin), prereleases=True), f"{pin} is not {wanted}: {STALE}"


@pytest.mark.parametrize("name", WANTED)
def test_every_pin_has_a_hash(name: str) -> None:
    bare = [entry[:60] for entry in entries(name) if "--hash=sha256:" not in entry]
    assert bare == []


@pytest.mark.parametrize("name", [DEV, BUILD])
def test_what_two_files_pin_has_one_version(name: str) -> None:
    others = pins(BASE) | pins(DEV)
    differing = [
        str(pin) for key, pin in pins(name).items() if key in others and others[key].specifier != pin.specifier
    ]
    assert differing == [], STALE


def test_whatever_the_product_needs_is_also_there_for_development() -> None:
    assert set(pins(BASE)) - set(pins(DEV)) == set(), STALE


def test_development_brings_what_builds_the_wheel() -> None:
    assert PYPROJECT["dependency-groups"]["build"] == WANTED[BUILD]
    assert set(pins(BUILD)) - set(pins(DEV)) == set(), STALE


def test_whatever_is_imported_is_asked_for_by_name() -> None:
    asked = {canonicalize_name(Requirement(wanted).name) for wanted in PROJECT["dependencies"]}
    providers = packages_distributions()
    imported = {
        name for path in [*SOURCE.rglob("*.py"), *(CHECKOUT / "migrations").rglob("*.py")] for name in _packages(path)
    }
    foreign = imported - set(sys.stdlib_module_names) - {"warploom", "migration"}
    strangers = {name for name in foreign if asked.isdisjoint(map(canonicalize_name, [name, *providers.get(name, [])]))}
    assert strangers == set()


def _packages(path: Path) -> set[str]:
    """Return the outermost names of what a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_requirements_name_no_address() -> None:
    for path in [*FOLDER.iterdir(), CHECKOUT / "pyproject.toml"]:
        text = path.read_text(encoding="utf-8")
        assert "://" not in text, f"{path.name} names an address"
        assert not re.search(r"(?m)^\s*(-i|-f|--index-url|--extra-index-url|--find-links)\b", text), path.name


def test_no_lock_file_that_records_addresses_is_in_the_checkout() -> None:
    assert [
        name for name in ("uv.lock", "pylock.toml", "poetry.lock", "Pipfile.lock") if Path(CHECKOUT, name).exists()
    ] == []
