"""`warploom orchestrate`: what it does to a real database, what it says, and how it stops."""

import json
import signal

from support.databases import Clock
from support.serving import Serve, StartCommand
from warploom.cli.exits import Exit
from warploom.orchestrator.duties import DUTIES


def test_once_does_every_duty_and_has_a_line_for_each(database_url: str, redis_url: str, command: StartCommand) -> None:
    code, printed, said = command("orchestrate", "--once", database_url=database_url, redis_url=redis_url).finish()
    assert (code, said) == (0, "")
    lines = printed.splitlines()
    assert [line[: len(duty.name)] for line, duty in zip(lines, DUTIES, strict=True)] == [duty.name for duty in DUTIES]
    assert all("nothing  " in line for line in lines)


def test_once_says_how_much_was_done(
    database_url: str, redis_url: str, command: StartCommand, serve: Serve, clock: Clock
) -> None:
    (server,) = serve()
    for arguments in (["create", "first"], ["claim", "--ttl", "10"]):
        assert command(*arguments, url=server.url, session="ann").finish()[0] == 0
    server.kill()
    clock.advance(minutes=30)
    code, printed, _ = command("orchestrate", "--json", database_url=database_url, redis_url=redis_url).finish()
    done = {duty["duty"]: duty["count"] for duty in json.loads(printed)}
    assert (code, done["lease reaper"]) == (0, 1)


def test_the_daemon_leads_until_it_is_told_to_stop(database_url: str, redis_url: str, command: StartCommand) -> None:
    daemon = command("orchestrate", "--daemon", database_url=database_url, redis_url=redis_url)
    assert any(line.rstrip().endswith("leads") for line in iter(daemon.first_words, ""))
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.finish()[0] == 0


def test_without_a_database_it_says_what_to_start(command: StartCommand) -> None:
    code, _, said = command("orchestrate", "--once").finish()
    assert (code, "`warploom up` starts it" in said) == (Exit.UNREACHABLE, True)
