"""The commands that make one call and print its answer, and what all commands have in common."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import samples
from scripted_server import Command, ScriptedServer, Stream
from typer.main import get_command

from warploom.cli.exits import MEANINGS, Exit, exit_for
from warploom.cli.main import COMMANDS, app, main
from warploom.domain.errors import Busy, Impossible, LeaseLost, NotFound, NotYours, SchemaMismatch, Unreachable
from warploom.domain.leases import LeaseState
from warploom.domain.tickets import Me

LONG_RUNNING = {"daemon", "serve", "host", "mcp", "monitor"}
GROUP = cast(Any, get_command(app))


def test_a_request_that_is_granted_prints_the_exports(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tickets", samples.active())
    done = warploom("request", "eval-sweep", "-d", "0", "--minutes", "20")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Your card is ready: local/0 (lease L-57, yours until you release it)."
    assert lines[1].startswith("export CUDA_DEVICE_ORDER=PCI_BUS_ID ")


def test_a_request_that_waits_says_where_why_how_long_and_what_to_do(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tickets", samples.queued(notices=["an offer was missed"]))
    done = warploom("request", "eval-sweep", "--device", "0")
    assert done.stdout.splitlines() == [
        "queued  T-18 on local/0, place 1: local/0 is held by L-42 'train bert-base' (claude-1), free in 44–52 min, "
        "measured from its step rate",
        "        starts in 44–52 min, measured",
        "        a free card: local/1 (not taken: you asked for local/0)",
        "next    Run `warploom wait T-18` in the background and end your turn.",
    ]
    assert done.stderr == "notice  an offer was missed\n"


def test_the_impossible_is_refused_in_two_sentences_with_3(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tickets", Impossible("No card has 200 GiB.", "Ask for at most 141."))
    done = warploom("request", "x", "--memory-gib", "200")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "No card has 200 GiB.\nAsk for at most 141.\n")


def test_a_refusal_with_json_is_one_object_on_stdout(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/tickets", Impossible("No card has 200 GiB.", "Ask for at most 141."))
    done = warploom("request", "x", "--json")
    assert (done.returncode, done.stderr) == (3, "")
    assert json.loads(done.stdout) == {
        "error": {"code": "impossible", "cause": "No card has 200 GiB.", "next": "Ask for at most 141."}
    }


def test_explaining_tells_the_whole_chain(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/tickets/T-18", samples.queued())
    assert warploom("explain", "T-18").stdout.splitlines()[-1] == "        then: ahead of you: T-9"


def test_leaving_takes_the_ticket_out(server: ScriptedServer, warploom: Command) -> None:
    server.on("DELETE", "/api/v1/tickets/T-18", samples.ended())
    assert warploom("leave", "t-18").stdout.startswith("ended   T-18 'eval-sweep': it left the queue")


def test_releasing_may_take_the_lease_from_the_shell(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/leases/L-57/release", samples.lease(LeaseState.ENDED, next="Nothing more to do."))
    done = warploom("release", WARPLOOM_LEASE="L-57")
    assert done.stdout.splitlines() == ["L-57 ended on local/0", "Nothing more to do."]


def test_extending_and_reporting_say_what_they_are_given(server: ScriptedServer, warploom: Command) -> None:
    answer = samples.lease(step=120, total=3000, free_in="44–52 min", eta_source="measured")
    server.on("POST", "/api/v1/leases/L-57/(extend|report)", answer)
    assert warploom("extend", "L-57", "30", "--reason", "more epochs").returncode == 0
    done = warploom("report", "L-57", "120", "3000")
    assert done.stdout.splitlines()[0] == "L-57 active on local/0, step 120 of 3,000, free in 44–52 min (measured)"
    assert [call.body for call in server.calls] == [
        {"minutes": 30.0, "reason": "more epochs"},
        {"step": 120, "total": 3000},
    ]


def test_a_lost_lease_is_exit_4(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/leases/L-57/release", LeaseLost("L-57 ended at 14:23.", "Ask again."))
    assert warploom("release", "L-57").returncode == 4


def test_release_tells_how_the_job_failed(warploom: Command, server: ScriptedServer) -> None:
    server.on("POST", "/api/v1/leases/L-57/release", samples.lease(LeaseState.ENDED, next="Nothing more to do."))
    assert warploom("release", "L-57", "--error", "GPU is lost", "--class", "infra").returncode == 0
    body = server.called("POST", "/api/v1/leases/L-57/release")[0].body
    assert body == {"keep_place": False, "error": "GPU is lost", "failure": "infra"}


@pytest.mark.parametrize("arguments", [["report", "L-57", "-1"], ["report", "L-57", "1", "0"], ["release", "57; true"]])
def test_nonsense_about_a_lease_is_refused_without_a_call(
    server: ScriptedServer, warploom: Command, arguments: list[str]
) -> None:
    assert warploom(*arguments).returncode in (Exit.USAGE, Exit.REFUSED)
    assert server.calls == []


def test_me_tells_what_a_session_holds_and_has_not_read(server: ScriptedServer, warploom: Command) -> None:
    me = Me("S-1", "claude-1", "default", samples.NOW, [samples.active()], [samples.queued()], ["hello"], "Go on.")
    server.on("GET", "/api/v1/me", me)
    lines = warploom("me").stdout.splitlines()
    assert lines[0] == "S-1 is claude-1 in project default."
    assert lines[-2:] == ["notice  hello", "Go on."]


def test_events_are_sentences_or_objects_with_their_cursor(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/events", {"events": [samples.event("5")], "cursor": "5"})
    text = warploom("events", TZ="UTC").stdout
    assert text.split(maxsplit=2)[:2] == ["2026-03-01", "14:20:00"]
    assert text.rstrip().endswith("T-18 L-57     claude-2 holds local/0 for 'eval-sweep'")
    assert json.loads(warploom("events", "--json", "--limit", "3").stdout)["cursor"] == "5"
    assert server.calls[-1].query == "limit=3"


def test_following_goes_on_right_after_what_was_printed(server: ScriptedServer, environment: dict[str, str]) -> None:
    server.on("GET", "/api/v1/events", {"events": [samples.event("5")], "cursor": "5"})
    server.on("GET", "/events", Stream([samples.event("6", "a new one")]))
    command = [sys.executable, "-m", "warploom", "events", "-f", "--json"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    cursors = [json.loads(process.stdout.readline())["cursor"] for _ in range(2)]
    process.terminate()
    process.communicate(timeout=20)
    assert cursors == ["5", "6"]
    assert server.called("GET", "/events")[0].headers["Last-Event-ID"] == "5"


def test_a_reader_that_leaves_early_is_no_error(server: ScriptedServer, environment: dict[str, str]) -> None:
    server.on("GET", "/api/v1/events", {"events": [samples.event(str(n)) for n in range(5000)], "cursor": "9"})
    done = subprocess.run(
        f"{sys.executable} -m warploom events --json | head -1",
        shell=True,
        env=environment,
        capture_output=True,
        timeout=60,
    )
    assert done.stderr == b""
    assert json.loads(done.stdout)["cursor"] == "0"


def test_config_names_every_setting_with_its_source_and_hides_secrets(
    warploom: Command, environment: dict[str, str]
) -> None:
    home = Path(environment["WARPLOOM_HOME"])
    home.mkdir()
    (home / "config.toml").write_text('lease_minutes = 3\nkey = "very-secret"\n')
    done = warploom("config", WARPLOOM_PORT="9999")
    assert "WARPLOOM_PORT = 9999  [environment]" in done.stdout
    assert "WARPLOOM_LEASE_MINUTES = 3  [config.toml]" in done.stdout
    assert "WARPLOOM_BIND = 127.0.0.1  [default]" in done.stdout
    assert "very-secret" not in done.stdout + warploom("config", "--json").stdout


def test_a_broken_configuration_is_one_refusal_in_every_command(warploom: Command, environment: dict[str, str]) -> None:
    home = Path(environment["WARPLOOM_HOME"])
    home.mkdir()
    (home / "config.toml").write_text("lease_minutes = [")
    done = warploom("status")
    assert done.returncode == 3
    assert "config.toml is not valid TOML" in done.stderr


def test_an_operators_key_is_sent_for_operators_actions_only(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.lane()))
    answer = {"card": "local/0", "service": "drained", "done": True, "consequences": []}
    server.on("POST", "/api/v1/cards/local/0/drain", answer)
    keys = {"WARPLOOM_KEY": "agent-key", "WARPLOOM_OPERATOR_KEY": "operator-key"}
    warploom("status", **keys)
    warploom("drain", "0", "--yes", **keys)
    sent = [(call.method, call.headers["Authorization"]) for call in server.calls]
    assert sent[0] == ("GET", "Bearer agent-key")
    assert sent[-1] == ("POST", "Bearer operator-key")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_speaks_json(name: str) -> None:
    command = GROUP.get_command(None, name)
    assert "warploom" in command.epilog
    inner = getattr(command, "commands", {}).values()
    for each in inner or [command]:
        options = [option for parameter in each.params for option in parameter.opts]
        assert "--json" in options or name in LONG_RUNNING
        assert each.help


def test_a_mistyped_command_or_option_is_usage_in_two_sentences(warploom: Command) -> None:
    done = warploom("stauts")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "No such command 'stauts'. Did you mean 'status'?",
        "`warploom --help` shows how.",
    ]
    done = warploom("wait", "T-1", "--nonsense", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["next"] == "`warploom wait --help` shows how."


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == Exit.USAGE
    assert re.search(r"(?m)^  status +Show who holds which card", capsys.readouterr().out)


def test_each_error_has_its_exit_code_and_each_code_its_meaning() -> None:
    assert exit_for(Unreachable("", "")) == exit_for(Busy("", "")) == exit_for(SchemaMismatch("", "")) == 6
    assert exit_for(LeaseLost("", "")) == 4
    assert exit_for(NotFound("", "")) == exit_for(NotYours("", "")) == exit_for(Impossible("", "")) == 3
    assert set(MEANINGS) == set(Exit)


def test_a_command_finds_its_session_by_its_ancestors(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.lane()))
    warploom("status", WARPLOOM_AGENT="ann", WARPLOOM_SESSION="one")
    headers = server.calls[0].headers
    assert headers["X-Warploom-Ancestors"].startswith(f"{os.getpid()}:")
    assert (headers["X-Warploom-Agent"], headers["X-Warploom-Session"]) == ("ann", "one")
    assert headers["X-Warploom-Host"] == "local"


def test_hostile_text_is_inert_as_lines_and_as_json(server: ScriptedServer, warploom: Command) -> None:
    evil = "\x9b31m[bold red]x[/] \x1b[2J\r\n\u202e\U000e0041"
    server.on("GET", "/api/v1/events", {"events": [samples.event("5", evil)], "cursor": "5"})
    lines, objects = warploom("events").stdout, warploom("events", "--json").stdout
    assert [output.rstrip("\n").isprintable() for output in (lines, objects)] == [True, True]
    assert "[bold red]x[/]" in lines
    assert json.loads(objects)["text"] == evil


def test_a_home_that_cannot_be_read_is_one_sentence_and_no_traceback(warploom: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = warploom("status", WARPLOOM_HOME=str(tmp_path / "file"))
    assert done.returncode == 1
    assert done.stderr.startswith("A file that is needed cannot be used: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_is_a_coroutine_that_nobody_would_await(name: str) -> None:
    command = GROUP.get_command(None, name)
    commands = [command, *getattr(command, "commands", {}).values()]
    assert not any(inspect.iscoroutinefunction(each.callback) for each in commands)
