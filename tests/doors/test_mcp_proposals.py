"""Proposals over MCP and the command line: asked, agreed and kept between a model and a person, against a real server process."""

from collections.abc import Generator

import pytest
from tools import agent_at

from support.serving import Caller, ServerProcess, StartCommand, server_processes


@pytest.fixture(scope="module")
def server(
    module_database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServerProcess]:
    settings: dict[str, object] = {"database_url": module_database_url, "redis_url": redis_url}
    with server_processes(tmp_path_factory.mktemp("server"), settings) as (server,):
        yield server


@pytest.fixture
def host(server: ServerProcess) -> Generator[Caller]:
    caller = Caller(server.url)
    yield caller
    caller.close()


async def test_a_card_is_asked_for_agreed_on_and_released_at_its_step(
    server: ServerProcess, host: Caller, command: StartCommand
) -> None:
    host.survey("talk")
    async with agent_at(server.url, "claude-1") as holder, agent_at(server.url, "claude-2") as asker:
        lease = (await holder.call("gpu_request", job="train", device="talk/0", minutes=600))["lease"]
        ticket = (await asker.call("gpu_request", job="eval", device="talk/0", minutes=10))["ticket"]
        await holder.call("gpu_report", lease=lease, step=10, total=30_000)

        asked = await asker.call(
            "loom_message",
            to="claude-1",
            message="My eval takes ten minutes.",
            propose="release_at_step",
            about=lease,
            step=500,
        )
        proposal = asked["proposal"]
        assert asked["text"] == f"claude-1 releases {lease} on talk/0 at step 500, for which {ticket} (claude-2) waits"
        assert (asked["state"], "reason" in asked) == ("open", False)

        me = await holder.call("loom_me")
        (listed,) = me["proposals"]
        assert (listed["proposal"], listed["partner"], listed["reason"]) == (
            proposal,
            "claude-1",
            "My eval takes ten minutes.",
        )
        assert any(f"claude-2 proposes {proposal}" in notice for notice in me["notices"])
        refusal = await asker.refusal("loom_reply", proposal=proposal, answer="accept")
        assert refusal.startswith(f"not_yours: {proposal} is your own")

        agreed = await holder.call("loom_reply", proposal=proposal, answer="accept")
        assert agreed["state"] == "accepted"
        explained = await asker.call("gpu_explain", ticket=ticket)
        assert f"will be released at step 500, agreed with claude-2 ({proposal})" in explained["reason"]
        assert not (await holder.call("gpu_report", lease=lease, step=499)).get("should_release")
        due = await holder.call("gpu_report", lease=lease, step=500)
        assert due["should_release"]
        assert due["next"].startswith(f"You agreed to release {lease} for claude-2 at step 500")
        await holder.call("gpu_release", lease=lease)

    status, out, _ = command("proposals", url=server.url, agent="claude-9").finish()
    assert (status, out) == (0, "Nothing is proposed or agreed.\n")


async def test_a_shell_answers_what_a_model_proposed(
    server: ServerProcess, host: Caller, command: StartCommand
) -> None:
    host.survey("shell")
    async with agent_at(server.url, "codex-1") as asker:
        mine = {"url": server.url, "agent": "ada", "session": "shell"}
        assert command("request", "train", "--device", "shell/0", **mine).finish()[0] == 0
        await asker.call("gpu_request", job="eval", device="shell/0")
        lanes = (await asker.call("gpu_survey"))["cards"]
        lease = next(lane["holder"]["lease"] for lane in lanes if lane["card"] == "shell/0")
        terms = {"to": "ada", "propose": "release_at_step", "about": lease, "in_minutes": 30}
        proposal = (await asker.call("loom_message", message="please", **terms))["proposal"]

        status, out, _ = command("proposals", **mine).finish()
        assert (status, out.splitlines()[1]) == (0, "    > please")
        status, _, err = command("decline", proposal, **mine).finish()
        assert (status, "--why" in err) == (2, True)
        done = command(
            "propose",
            "release-at-step",
            lease,
            "--to",
            "codex-1",
            "--in",
            "2h",
            "--why",
            "later",
            "--instead-of",
            proposal,
            **mine,
        ).finish()
        assert done[0] == 0
        notices = (await asker.call("gpu_survey"))["notices"]
        assert f'ada declined {proposal}, saying, as data: "answered with another: later"' in notices[0]
        assert "ada proposes P-" in notices[1]


WRONG = [
    ("loom_message", {"to": "x", "message": "x", "about": "L-1"}, "not what is proposed"),
    ("loom_message", {"to": "x", "message": "x", "propose": "theft", "about": "L-1"}, "cannot be proposed"),
    ("loom_message", {"to": "x", "message": "x", "propose": "swap"}, "is not a ticket"),
    ("loom_message", {"to": "x", "message": "x" * 501, "propose": "swap", "about": "T-1"}, "reason has 501"),
    ("loom_message", {"to": "x", "message": "x", "propose": "split_window", "about": "L-1"}, "says no length"),
    (
        "loom_message",
        {"to": "x", "message": "x", "propose": "swap", "about": "T-1", "instead_of": "x"},
        "not a proposal",
    ),
    ("loom_reply", {"proposal": "P-x", "answer": "accept"}, "is not a proposal"),
    ("loom_reply", {"proposal": "P-999999", "answer": "accept"}, "no proposal P-999999"),
    ("loom_reply", {"proposal": "P-1", "answer": "maybe"}, "is no answer"),
    ("loom_reply", {"proposal": "P-1", "answer": "decline"}, "without a reason"),
]


async def test_what_makes_no_sense_is_refused_in_a_sentence(server: ServerProcess) -> None:
    async with agent_at(server.url, "wrong") as agent:
        for tool, arguments, words in WRONG:
            refusal = await agent.refusal(tool, **arguments)
            assert words in refusal
            assert len(refusal) < 400
