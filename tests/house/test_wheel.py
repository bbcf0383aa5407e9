"""The wheel that is built from the checkout works on its own, with everything it needs inside."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from checkout import CHECKOUT, PROGRAMS, name_of, tracked_files

PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
ASSETS = tuple(PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheel, and borrows everything else from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    install = [
        PROGRAMS / "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        folder / "bin" / "python",
    ]
    subprocess.run([*install, wheel], check=True, env=_plain_environment(folder))
    packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder


def _plain_environment(home: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WARPLOOM_", "PYTHON", "UV_", "VIRTUAL"))
    }
    return {**kept, "WARPLOOM_HOME": str(home.parent / "home")}


def _run(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin" / arguments[0]), *arguments[1:]]
    return subprocess.run(
        command,
        cwd=environment.parent,
        env=_plain_environment(environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_wheel_holds_every_asset_of_the_checkout(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = [name for name in map(name_of, tracked_files()) if name.startswith(tuple(f"{kind}/" for kind in ASSETS))]
    assert tracked
    assert [name for name in tracked if f"warploom/_assets/{name}" not in inside] == []


def test_the_wheel_holds_nothing_outside_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"warploom"}
    assert [name for name in names if "__pycache__" in name] == []


def test_an_installed_wheel_finds_its_assets_without_the_checkout(environment: Path) -> None:
    checked = _run(environment, "warploom", "doctor", "--assets")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert str(CHECKOUT) not in checked.stdout


def test_an_installed_wheel_brings_its_commands(environment: Path) -> None:
    version = _run(environment, "warploom", "version")
    assert version.returncode == 0, version.stderr
    assert (environment / "bin" / "warploom-mcp").exists()


def test_an_installed_wheel_is_imported_from_where_it_was_installed(environment: Path) -> None:
    where = _run(environment, "python", "-c", "import warploom; print(warploom.__file__)")
    assert where.stdout.startswith(str(environment)), where.stdout + where.stderr
