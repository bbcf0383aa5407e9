"""Every module can be introduced in one sentence, and packages hold no code of their own."""

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest
from checkout import CHECKOUT, SOURCE, name_of

MODULES = sorted(path for path in SOURCE.rglob("*.py") if "_assets" not in path.parts)
PLAIN = [path for path in MODULES if path.name != "__init__.py"]
PACKAGES = [path for path in MODULES if path.name == "__init__.py" and path.parent != SOURCE]
TESTS = sorted((CHECKOUT / "tests").rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base", "core", "lib"}


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _fault(path: Path) -> str | None:
    docstring = ast.get_docstring(_tree(path))
    if not docstring:
        return "has no docstring"
    first = docstring.splitlines()[0]
    begins = first[0].isupper() or first[0] == "`"
    return None if begins and first.endswith(".") and len(first) <= 140 else f"begins with no whole sentence: {first!r}"


def _faults(paths: list[Path]) -> dict[str, str]:
    return {name_of(path): fault for path in paths if (fault := _fault(path)) is not None}


def test_every_module_begins_with_one_sentence() -> None:
    assert _faults([*PLAIN, SOURCE / "__init__.py"]) == {}


def test_packages_hold_no_code() -> None:
    assert [name_of(path) for path in PACKAGES if path.read_text(encoding="utf-8").strip()] == []


def test_no_module_has_a_name_that_means_nothing() -> None:
    assert [name_of(path) for path in MODULES if path.stem in VAGUE or path.parent.name in VAGUE] == []


def test_no_module_has_outgrown_its_noun() -> None:
    long = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PLAIN}
    assert {name: lines for name, lines in long.items() if lines > 450} == {}


@pytest.mark.parametrize("name", ["domain", "report.py"])
def test_domain_and_report_need_the_standard_library_alone(name: str) -> None:
    place = SOURCE / name
    own = {"warploom.domain"} if place.is_dir() else set[str]()
    strangers: list[str] = []
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        for imported in _imports(path):
            is_own = any(imported == known or imported.startswith(f"{known}.") for known in own)
            if imported.partition(".")[0] not in sys.stdlib_module_names and not is_own:
                strangers.append(f"{name_of(path)}: {imported}")
    assert strangers == []


def _imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return names


def test_no_two_test_files_share_a_name_by_which_pytest_imports_them() -> None:
    names = Counter(_imported_as(path) for path in TESTS if path.name not in ("__init__.py", "conftest.py"))
    assert [name for name, count in names.items() if count > 1] == []


def _imported_as(path: Path) -> str:
    """Return the name under which pytest imports a file: within its folder's where that is a package, else alone."""
    is_in_package = (path.parent / "__init__.py").is_file()
    return f"{path.parent.name}.{path.stem}" if is_in_package else path.stem
