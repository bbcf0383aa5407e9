"""`warploom project`: what it asks of the server, what it prints, and the line it writes to config.toml."""

from pathlib import Path

import pytest
import samples
from scripted_server import Command, ScriptedServer

from warploom.domain.errors import NotAllowed, NotFound, NotReady
from warploom.domain.projects import ProjectAnswer, ProjectsAnswer, ProjectView


def view(name: str = "vision", **changes: object) -> ProjectView:
    facts = {
        "project": name,
        "description": None,
        "created_at": samples.NOW,
        "counts": {"ready": 3, "claimed": 1, "done": 12},
        "open": 4,
        "done": 12,
        "percent": 75,
    }
    return ProjectView(**(facts | changes))  # type: ignore[arg-type]


def test_listing_marks_the_current_one_and_says_how_far_each_is(server: ScriptedServer, warploom: Command) -> None:
    late = {"overdue": 2, "escalations": 1, "counts": {"blocked": 4, "dead_letter": 1}, "description": "Images\nonly."}
    views = [view("default", is_current=True), view("vision", **late), view("old", archived_at=samples.NOW)]
    server.on("GET", "/api/v1/projects", ProjectsAnswer(views, "Go on.", ["hello"]))

    done = warploom("project", "list", "--archived")

    assert done.stdout.splitlines() == [
        "* default   75 %  4 open, 12 done, 1 claimed",
        "  vision    75 %  4 open, 12 done, 4 blocked, 1 given up, 2 overdue, 1 unanswered  Images",
        "  old       75 %  4 open, 12 done, 1 claimed, archived",
    ]
    assert done.stderr == "notice  hello\n"
    assert server.calls[0].query == "archived=true"


def test_creating_says_that_nobody_has_moved(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/projects", ProjectAnswer(view(), "You are still in your own project."))
    done = warploom("project", "create", "vision", "-d", "All about images")
    assert done.stdout.splitlines() == ["Made the project 'vision'.", "next    You are still in your own project."]
    assert server.calls[0].body == {"name": "vision", "description": "All about images"}


def test_switching_moves_this_session_and_those_that_start_later(
    server: ScriptedServer, warploom: Command, environment: dict[str, str]
) -> None:
    home = Path(environment["WARPLOOM_HOME"])
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('# ours\nproject = "default"\nlease_minutes = 3\n')
    server.on("POST", "/api/v1/projects/Vision%201/switch", ProjectAnswer(view("Vision 1"), "Go on."))

    done = warploom("project", "switch", "Vision 1")

    assert done.stdout.splitlines()[0] == "This session and those that start later work in the project 'Vision 1'."
    assert (home / "config.toml").read_text() == '# ours\nproject = "Vision 1"\nlease_minutes = 3\n'
    assert server.calls[0].headers["X-Warploom-Project"] == "default"


def test_switching_to_no_project_leaves_the_file_alone(
    server: ScriptedServer, warploom: Command, environment: dict[str, str]
) -> None:
    server.on("POST", "/api/v1/projects/visoin/switch", NotFound("There is no project 'visoin'.", "There is vision."))
    done = warploom("project", "switch", "visoin")
    assert (done.returncode, done.stderr) == (3, "There is no project 'visoin'.\nThere is vision.\n")
    assert not (Path(environment["WARPLOOM_HOME"]) / "config.toml").exists()


def test_a_file_that_cannot_be_changed_is_told_beside_the_switch(
    server: ScriptedServer, warploom: Command, environment: dict[str, str]
) -> None:
    home = Path(environment["WARPLOOM_HOME"])
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('project = """\ndefault"""\n')
    server.on("POST", "/api/v1/projects/vision/switch", ProjectAnswer(view(), "Go on."))
    done = warploom("project", "switch", "vision", WARPLOOM_PROJECT="default")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "This session works in the project 'vision'."
    assert "Sessions that start later are not switched: " in done.stderr
    assert done.stderr.endswith("WARPLOOM_PROJECT is set in this shell and wins over the file.\n")


@pytest.mark.parametrize(("arguments", "back", "said"), [([], False, "is archived"), (["--back"], True, "is back")])
def test_archiving_is_asked_with_the_operators_key(
    server: ScriptedServer, warploom: Command, arguments: list[str], back: bool, said: str
) -> None:
    server.on("POST", "/api/v1/projects/vision/archive", ProjectAnswer(view(), "Nothing was deleted."))
    done = warploom("project", "archive", "vision", *arguments, WARPLOOM_KEY="a", WARPLOOM_OPERATOR_KEY="o")
    assert done.stdout.splitlines() == [f"The project 'vision' {said}.", "next    Nothing was deleted."]
    assert server.calls[0].body == {"back": back}
    assert server.calls[0].headers["Authorization"] == "Bearer o"


@pytest.mark.parametrize("refusal", [NotReady("T-3 is being worked on.", "Wait."), NotAllowed("No.", "Ask.")])
def test_a_refusal_is_exit_3(server: ScriptedServer, warploom: Command, refusal: NotReady | NotAllowed) -> None:
    server.on("POST", "/api/v1/projects/vision/archive", refusal)
    assert warploom("project", "archive", "vision").returncode == 3
