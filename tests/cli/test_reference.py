"""The reference pages are written from the code, and a stale one is named."""

from pathlib import Path

import pytest

from warploom.cli.reference import main, pages


def test_pages_once_written_are_fresh(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0


def test_a_stale_or_missing_page_is_named_and_not_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(tmp_path)])
    (tmp_path / "cli.md").write_text("old")
    (tmp_path / "events.md").unlink()
    capsys.readouterr()
    assert main(["--check", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert ("cli.md is stale" in told, "events.md is stale" in told, "errors.md" in told) == (True, True, False)
    assert (tmp_path / "cli.md").read_text() == "old"


def test_the_folder_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 2
    assert "docs/reference" in capsys.readouterr().err


def test_the_pages_do_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pages()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert pages() == before
