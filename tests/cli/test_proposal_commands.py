"""`warploom propose`, `proposals`, `accept`, `decline` and `withdraw`."""

import json

import samples
from scripted_server import Call, Command, ScriptedServer

from warploom.domain.errors import NotReady
from warploom.domain.proposals import ProposalAnswer, ProposalKind, ProposalState, ProposalView


def view(**changes: object) -> ProposalView:
    facts = {
        "proposal": "P-3",
        "kind": ProposalKind.RELEASE_AT_STEP,
        "state": ProposalState.OPEN,
        "proposer": "claude-2",
        "partner": "ada",
        "text": "ada releases L-42 on local/0 at step 500, for which T-18 (claude-2) waits",
        "reason": "due\x1b[2J today",
        "made_at": samples.NOW,
        "expires_at": samples.NOW,
    }
    return ProposalView(**(facts | changes))  # type: ignore[arg-type]


def answer(*, done: bool = True, **changes: object) -> ProposalAnswer:
    return ProposalAnswer(view(**changes), done, "It is told.", ["hello"])


def test_a_proposal_is_sent_with_its_terms(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/proposals", answer())
    done = warploom(
        "propose", "split-window", "L-42", "--for", "1h", "--in", "20min", "--why", "due", "--open-for", "2h"
    )
    assert done.stdout.splitlines() == [
        "proposed P-3: ada releases L-42 on local/0 at step 500, for which T-18 (claude-2) waits",
        "next    It is told.",
    ]
    assert done.stderr == "notice  hello\n"
    assert {key: entry for key, entry in server.calls[0].body.items() if entry is not None} == {
        "kind": "split-window",
        "about": "L-42",
        "reason": "due",
        "in_minutes": 20.0,
        "minutes": 60.0,
        "open_minutes": 120.0,
    }


def test_a_reason_is_needed(server: ScriptedServer, warploom: Command) -> None:
    done = warploom("propose", "swap", "T-18")
    assert (done.returncode, "--why" in done.stderr, server.calls) == (2, True, [])


def test_proposals_are_listed_with_their_reasons_quoted(server: ScriptedServer, warploom: Command) -> None:
    agreed = view(proposal="P-4", state=ProposalState.ACCEPTED, is_due=True, reason="x")
    server.on("GET", "/api/v1/proposals", [view(), agreed], [])
    assert warploom("proposals", TZ="UTC").stdout.splitlines() == [
        "P-3  claude-2 to ada, open until 14:20: ada releases L-42 on local/0 at step 500, for which T-18 (claude-2) waits",
        "    > due [2J today",
        "P-4  claude-2 to ada, accepted, and due now: ada releases L-42 on local/0 at step 500, for which T-18 (claude-2) waits",
        "    > x",
    ]
    assert warploom("proposals").stdout == "Nothing is proposed or agreed.\n"


def test_a_proposal_is_accepted_and_declined_by_its_number(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/proposals/P-3/accept", answer(), NotReady("L-42 is over.", "Nothing was moved."))
    server.on("POST", "/api/v1/proposals/P-3/decline", answer())
    assert warploom("accept", "p3").stdout.startswith("agreed P-3")
    refused = warploom("accept", "P-3")
    assert (refused.returncode, refused.stderr) == (3, "L-42 is over.\nNothing was moved.\n")
    assert json.loads(warploom("decline", "P-3", "--why", "no", "--json").stdout)["proposal"]["proposal"] == "P-3"
    assert server.calls[-1].body == {"reason": "no"}


def test_an_operator_is_shown_what_a_withdrawal_means_and_asked(server: ScriptedServer, warploom: Command) -> None:
    def withdrawn(call: Call) -> ProposalAnswer:
        return answer(done=not call.body["preview"])

    server.on("POST", "/api/v1/proposals/P-3/withdraw", withdrawn)
    asked = warploom("withdraw", "P-3", "--operator")
    assert asked.returncode == 3
    assert asked.stdout.startswith("would withdraw P-3")
    assert [call.body["preview"] for call in server.calls] == [True]
    assert warploom("withdraw", "P-3", "--operator", "--yes").stdout.startswith("withdrew P-3")
    assert warploom("withdraw", "P-3").stdout.startswith("withdrew P-3")
    assert [call.body["preview"] for call in server.calls] == [True, False, False]
