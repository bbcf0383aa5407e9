"""`make` is the whole interface: every target says what it does, and `.ci/run` calls them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from checkout import CHECKOUT, text_of

MAKEFILE = text_of(CHECKOUT / "Makefile")
CI = CHECKOUT / ".ci" / "run"
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def _make(*arguments: str, folder: Path = CHECKOUT, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True, timeout=30, check=False
    )


@needs_make
def test_help_lists_every_target() -> None:
    (phony,) = re.findall(r"(?m)^\.PHONY: (.+)$", MAKEFILE)
    shown = re.findall(r"(?m)^  make (\S+)", _make("help").stdout)
    assert set(shown) == set(phony.split())


@needs_make
def test_without_a_python_that_is_new_enough_one_sentence_says_so(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    refused = _make(".venv/bin/python", "PYTHON=/nonexistent/python", folder=tmp_path)
    assert refused.returncode != 0
    assert "Warploom needs Python 3.11 or newer" in refused.stdout


@needs_make
def test_a_python_that_cannot_make_environments_is_told_from_one_that_is_too_old(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\nexit 0\n', encoding="utf-8")
    python.chmod(0o755)
    refused = _make(".venv/bin/python", f"PYTHON={python}", "UV=", folder=tmp_path)
    assert refused.returncode != 0
    assert "cannot make virtual environments" in refused.stdout


def test_the_ci_script_can_be_run_and_calls_the_targets() -> None:
    text = text_of(CI)
    assert os.access(CI, os.X_OK)
    assert "set -euo pipefail" in text
    assert "make check" in text
    assert "make test" in text


def test_the_workflow_calls_the_ci_script_and_nothing_else() -> None:
    steps = re.findall(r"(?m)^ +- run: (.+)$", text_of(CHECKOUT / ".github" / "workflows" / "ci.yml"))
    assert steps == [".ci/run"]


def test_hooks_use_the_local_tools_and_fetch_nothing() -> None:
    text = text_of(CHECKOUT / ".pre-commit-config.yaml")
    assert set(re.findall(r"repo: (\S+)", text)) == {"local"}
    assert set(re.findall(r"language: (\S+)", text)) == {"system"}
    assert all(entry.startswith(".venv/bin/") for entry in re.findall(r"entry: (\S+)", text))
