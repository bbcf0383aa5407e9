"""A home is private to its owner and never closes a folder that others use."""

import os
import stat

import pytest

from warploom.domain.errors import Unreachable
from warploom.embedded.homes import Home


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_is_closed_to_others_and_its_parents_keep_their_modes(tmp_path):
    tmp_path.chmod(0o755)
    Home.at(tmp_path / "home").prepare()
    assert mode_of(tmp_path / "home") == 0o700
    assert mode_of(tmp_path) == 0o755


def test_a_home_that_stands_open_is_closed(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "config.toml").write_text("")
    Home.at(home).prepare()
    assert mode_of(home) == 0o700


def test_an_open_folder_with_the_files_of_others_is_refused_and_stays_open(tmp_path):
    (tmp_path / "thesis.tex").write_text("dear diary")
    tmp_path.chmod(0o755)
    with pytest.raises(
        Unreachable, match=r"open to other users and holds files that are not Warploom's \(thesis\.tex\)"
    ):
        Home.at(tmp_path).prepare()
    assert mode_of(tmp_path) == 0o755


def test_a_home_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable, match="cannot be used: Not a directory"):
        Home.at(tmp_path / "file" / "home").prepare()


def test_a_home_reached_by_a_link_is_the_same_home(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert Home.at(tmp_path / "link") == Home.at(tmp_path / "home")


def test_a_short_plain_path_is_its_own_address(tmp_path):
    home = Home.at(tmp_path)
    short = home.path / "pg18"
    assert home.address(short) == short or len(os.fsencode(short)) > 85


def test_a_link_that_was_lost_or_leads_elsewhere_is_made_anew(tmp_path, monkeypatch):
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    home = Home.at(tmp_path / "with a blank")
    home.prepare()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    link = home.address(home.path / "pg18")
    assert link.readlink() == home.path / "pg18"
    link.unlink()
    link.symlink_to("/elsewhere")
    assert home.address(home.path / "pg18").readlink() == home.path / "pg18"
    link.unlink()
    link.parent.rmdir()


def test_a_place_for_links_that_is_open_to_others_is_not_used(tmp_path, monkeypatch):
    home = Home.at(tmp_path / "with a blank")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    link = home.address(home.path / "pg18")
    link.parent.chmod(0o755)
    with pytest.raises(Unreachable, match="belongs to somebody else or is open to others"):
        home.address(home.path / "pg18")
    link.unlink()
    link.parent.rmdir()
