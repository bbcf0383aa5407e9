"""`warploom init`: gives a project the tools, keeps what is there, and changes nothing the second time."""

import json
from pathlib import Path

import pytest
from scripted_server import Command

from warploom.assets import asset_dir
from warploom.cli.gifts import BEGIN, END, SkillLink

ENTRY = {"command": "warploom", "args": ["mcp"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def _files(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def _words(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines()]


def test_an_empty_project_gets_all_three(warploom: Command, project: Path) -> None:
    done = warploom("init", str(project))
    assert done.returncode == 0
    assert _words(done.stdout) == ["created", "created", "created", "Next"]
    server = json.loads((project / ".mcp.json").read_text())["mcpServers"]["warploom"]
    assert (Path(server["command"]).name, server["args"]) == ("warploom", ["mcp"])
    assert "gpu_request" in (project / "AGENTS.md").read_text()
    assert (project / ".claude/skills/warploom/SKILL.md").is_file()
    assert (project / ".claude/skills/warploom").resolve() == (asset_dir("skills") / "warploom").resolve()


def test_running_it_again_changes_nothing(warploom: Command, project: Path) -> None:
    warploom("init", str(project))
    before = _files(project)
    done = warploom("init", str(project))
    assert _words(done.stdout) == ["unchanged", "unchanged", "unchanged", "Next"]
    assert _files(project) == before


def test_other_servers_and_other_text_stay(warploom: Command, project: Path) -> None:
    (project / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "ü"}}, "more": [1]}')
    (project / "AGENTS.md").write_text("# Ours\n\nBe kind.")
    assert _words(warploom("init", str(project)).stdout) == ["updated", "updated", "created", "Next"]
    table = json.loads((project / ".mcp.json").read_text())
    assert table["mcpServers"]["other"] == {"command": "ü"}
    assert table["more"] == [1]
    assert (project / "AGENTS.md").read_text().startswith(f"# Ours\n\nBe kind.\n\n{BEGIN}\n")


def test_an_entry_that_already_names_a_command_stays(warploom: Command, project: Path) -> None:
    own = (
        '{"mcpServers": {"warploom": {"command": "/opt/warploom", "args": ["mcp"], "env": {"WARPLOOM_AGENT": "ann"}}}}'
    )
    (project / ".mcp.json").write_text(own)
    warploom("init", str(project))
    assert (project / ".mcp.json").read_text() == own


def test_an_old_section_is_renewed_in_its_place(warploom: Command, project: Path) -> None:
    (project / "AGENTS.md").write_bytes(f"before\r\n{BEGIN}\r\nold words\r\n{END}\r\nafter\r\n".encode())
    warploom("init", str(project))
    text = (project / "AGENTS.md").read_bytes().decode()
    assert text.startswith(f"before\r\n{BEGIN}\r\n## GPUs and tasks\r\n")
    assert text.endswith(f"{END}\r\nafter\r\n")
    assert "old words" not in text


@pytest.mark.parametrize("broken", ["{", "[]", '{"mcpServers": []}', '{"mcpServers": {"warploom": 3}}', "\ufeff{,}"])
def test_a_broken_file_is_refused_and_everything_is_left_as_it_was(
    warploom: Command, project: Path, broken: str
) -> None:
    (project / ".mcp.json").write_text(broken)
    before = _files(project)
    done = warploom("init", str(project))
    assert done.returncode == 3
    assert str(project / ".mcp.json") in done.stderr
    assert "it was left as it is" in done.stderr
    assert _files(project) == before


def test_text_that_is_not_utf_8_is_refused_and_left(warploom: Command, project: Path) -> None:
    (project / "AGENTS.md").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in warploom("init", str(project)).stderr
    assert list(_files(project)) == ["AGENTS.md"]


@pytest.mark.parametrize("text", [f"{BEGIN}\nonly a beginning", f"only an end {END}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_markers_that_do_not_match_are_refused(warploom: Command, project: Path, text: str) -> None:
    (project / "AGENTS.md").write_text(text)
    done = warploom("init", str(project))
    assert (done.returncode, "markers do not match" in done.stderr) == (3, True)
    assert (project / "AGENTS.md").read_text() == text


def test_a_dangling_link_is_renewed(warploom: Command, project: Path) -> None:
    place = project / ".claude/skills/warploom"
    place.parent.mkdir(parents=True)
    place.symlink_to("/nowhere/at/all")
    assert _words(warploom("init", str(project)).stdout)[2] == "updated"
    assert (place / "SKILL.md").is_file()


def test_a_copy_of_the_skill_is_renewed_where_links_are_impossible(project: Path) -> None:
    place = project / ".claude/skills/warploom"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("old")
    assert SkillLink(project).plan().apply() == "updated"
    assert (place / "SKILL.md").read_bytes() == (asset_dir("skills") / "warploom" / "SKILL.md").read_bytes()
    assert SkillLink(project).plan().apply() == "unchanged"


def test_settings_and_hooks_are_never_touched(warploom: Command, project: Path) -> None:
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text("{}")
    warploom("init", str(project))
    assert set(_files(project)) == {".mcp.json", "AGENTS.md", ".claude/settings.json", ".claude/skills/warploom"}
    assert (project / ".claude" / "settings.json").read_text() == "{}"


def test_a_link_to_a_file_elsewhere_is_written_through(warploom: Command, project: Path, tmp_path: Path) -> None:
    (tmp_path / "shared.json").write_text("{}")
    (project / ".mcp.json").symlink_to(tmp_path / "shared.json")
    warploom("init", str(project))
    assert (project / ".mcp.json").is_symlink()
    assert "warploom" in (tmp_path / "shared.json").read_text()


def test_a_folder_that_does_not_exist_is_refused(warploom: Command) -> None:
    done = warploom("init", "nowhere")
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "nowhere is not a folder.")


def test_json_lists_what_was_done(warploom: Command, project: Path) -> None:
    done = json.loads(warploom("init", str(project), "--json").stdout)
    assert [(each["path"], each["did"]) for each in done] == [
        (".mcp.json", "created"),
        ("AGENTS.md", "created"),
        (".claude/skills/warploom", "created"),
    ]
