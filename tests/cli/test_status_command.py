"""`warploom status`: one screen of 80 columns that says who holds what, how far along, and who waits."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
import samples
from rich.cells import cell_len
from scripted_server import Command, ScriptedServer

from warploom.cli.screen import screen
from warploom.domain.calibrations import Foretold, SourceRecord
from warploom.domain.cards import GLYPHS, CardState, Rack, Service
from warploom.domain.etas import EtaWord
from warploom.domain.leases import Label, LeaseState


def _lines(rack: Rack, width: int = 120) -> list[str]:
    return screen(rack, width).plain.splitlines()


def test_the_screen_reads_as_promised(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.busy_lane(), samples.lane(1)))
    done = warploom("status", COLUMNS="120")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "local   surveyed 0.4 s ago",
        "  0  GPU-5f3a91c2  ● leased    L-42  train bert-base · claude-1 · 18,900/30,000  free in 44–52 min  measured",
        "       1  T-18  eval-sweep    claude-2  waiting 41 min  starts in ~48 min  measured",
        "       2  T-91  hotfix-repro  codex-1   waiting 3 min   starts in ~2 h  declared",
        "  1  GPU-5f3a91c2  ○ free      for 6 min",
    ]


def test_a_card_is_named_by_its_index_and_the_beginning_of_its_uuid_together() -> None:
    """Casebook C01: whoever counts cards in another order still sees which one is meant."""
    lanes = [samples.busy_lane(), *(samples.lane(number, state) for number, state in enumerate(CardState, start=1))]
    heads = [line[:19] for line in _lines(samples.rack(*lanes), 80) if line.startswith("  ") and line[2].isdigit()]
    assert heads == [f"  {lane.index:<3}GPU-5f3a91c2  " for lane in lanes]


def test_weights_are_shown_where_cards_differ() -> None:
    lanes = [samples.busy_lane(weight=2.0, queue=[], waiting=0), samples.lane(1, weight=1.0)]
    _, held, free = _lines(samples.rack(*lanes))
    assert "18,900/30,000 · weight 2  free in" in held
    assert free.endswith("for 6 min · weight 1")


def test_how_well_each_source_of_estimates_has_done_is_said_below() -> None:
    """Casebook C43: whoever reads an estimate sees how far such ones can be trusted; nothing is said of what is unknown."""
    records = [
        SourceRecord(Foretold.START, EtaWord.HISTORY, 25, 3.2, 0.52, 0.84),
        SourceRecord(Foretold.END, EtaWord.DECLARED, 1, -90.0, 1.0, 1.0),
        SourceRecord(Foretold.END, EtaWord.MEASURED, 9, 0.2, 0.5, 0.9),
    ]
    assert _lines(replace(samples.rack(samples.lane()), calibration=records))[2:] == [
        "estimates  history starts: 84 % on time (p90), 52 % by the p50, median 3 min late, of 25",
        "estimates  declared ends: 100 % on time (p90), 100 % by the p50, median 1 h 30 min early, of 1",
        "estimates  measured ends: 90 % on time (p90), 50 % by the p50, median error under a minute, of 9",
    ]
    assert len(_lines(samples.rack(samples.lane()))) == 2


def test_json_is_the_rack_itself(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.busy_lane()))
    rack = json.loads(warploom("status", "--json").stdout)
    assert rack["hosts"][0]["cards"][0]["holder"]["lease"] == "L-42"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    long = {"title": "名前 " * 60, "agent": "agent-" * 20}
    lanes = [samples.busy_lane(), samples.busy_lane(1, holder=samples.holder(**long))]
    lanes += [samples.lane(number, state, say="why " * 60) for number, state in enumerate(CardState, start=2)]
    queue = [samples.place(9, "T-999999", "wide 名前 " * 30, "agent-" * 20, "3 d 23 h", samples.LATER)]
    lanes.append(samples.busy_lane(30, queue=queue, waiting=40))
    lines = _lines(samples.rack(*lanes, problem="no driver " * 40), width)
    assert max(map(cell_len, lines)) <= width
    assert any("… and 39 more" in line for line in lines)


def test_in_80_columns_who_and_how_far_move_to_a_line_of_their_own() -> None:
    lines = _lines(samples.rack(samples.busy_lane(queue=[], waiting=0)), 80)
    assert lines[1:] == [
        "  0  GPU-5f3a91c2  ● leased    L-42  train bert-ba…  free in 44–52 min  measured",
        "       claude-1 · 18,900/30,000",
    ]


@pytest.mark.parametrize("state", list(CardState))
def test_every_state_is_told_by_a_glyph_and_a_word(state: CardState) -> None:
    line = _lines(samples.rack(samples.lane(0, state)))[1]
    assert line.startswith(f"  0  GPU-5f3a91c2  {GLYPHS[state]} {state.value} ")


def test_a_card_that_nobody_can_have_says_why() -> None:
    say = "Local/0 is used by somebody else since 06:40 UTC: python (user bob, pid 4242, 3.1 GiB)"
    assert _lines(samples.rack(samples.lane(0, CardState.FOREIGN, say=say)))[2] == f"       {say}"


def test_an_offer_shows_until_when_it_stands() -> None:
    holder = samples.holder(state=LeaseState.OFFERED, step=None, delivered="at 06:40:00 UTC by `warploom wait`")
    line = _lines(samples.rack(samples.busy_lane(holder=holder, queue=[], waiting=0)))[1]
    assert line.endswith(f"claude-1  until {holder.expires_at.astimezone():%H:%M:%S}")


def test_an_offer_that_has_reached_nobody_says_so() -> None:
    holder = samples.holder(state=LeaseState.OFFERED, step=None)
    line = _lines(samples.rack(samples.busy_lane(holder=holder, queue=[], waiting=0)))[1]
    assert line.endswith(f"claude-1 · not delivered yet  until {holder.expires_at.astimezone():%H:%M:%S}")


def test_labels_and_an_unknown_end_are_said() -> None:
    holder = samples.holder(labels=[Label.UNATTENDED], total=None)
    line = _lines(samples.rack(samples.busy_lane(holder=holder, free=samples.UNKNOWN, queue=[], waiting=0)))[1]
    assert line.endswith("claude-1 · step 18,900 · unattended  end unknown")


@pytest.mark.parametrize("service", [Service.DRAINING, Service.QUARANTINED])
def test_a_held_card_that_is_on_its_way_out_says_so(service: Service) -> None:
    line = _lines(samples.rack(samples.busy_lane(service=service, free=samples.UNKNOWN, queue=[], waiting=0)))[1]
    assert f" · {service.value}  end unknown" in line


def test_a_silent_host_says_that_nothing_is_granted_there() -> None:
    rack = samples.rack(samples.lane(), is_present=False, surveyed_at=samples.NOW - timedelta(minutes=5))
    assert _lines(rack)[0] == "local   silent for 5 min: nothing is granted here"


def test_without_any_host_the_next_step_is_said() -> None:
    assert _lines(samples.rack()) == ["No host has reported yet: run `warploom up`."]


def test_hostile_names_cannot_draw_on_the_screen() -> None:
    evil = "\x1b[31m[bold]red[/bold]\r\n  9  ○ free \u202e"
    rack = samples.rack(samples.busy_lane(holder=samples.holder(title=evil, agent=evil)), problem=evil)
    text = screen(rack, 200).plain
    assert "[bold]red[/bold]" in text
    assert not any(mark in text for mark in "\x1b\r\u202e")
    assert len(text.splitlines()) == 5


def test_no_colour_is_printed_where_none_is_wanted(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.busy_lane()))
    wanted = warploom("status", NO_COLOR=None, FORCE_COLOR="1", TERM="xterm-256color").stdout
    unwanted = warploom("status", NO_COLOR="1", TERM="xterm-256color").stdout
    assert "\x1b[36m" in wanted
    assert "\x1b" not in unwanted


def test_an_encoding_without_glyphs_still_prints_the_words(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.lane()))
    done = warploom("status", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "? free" in done.stdout


def test_watching_prints_every_change_and_nothing_in_between(
    server: ScriptedServer, environment: dict[str, str]
) -> None:
    free, busy = samples.rack(samples.lane()), samples.rack(samples.busy_lane(queue=[], waiting=0))
    server.on("GET", "/api/v1/rack", free, free, busy)
    process = subprocess.Popen(
        [sys.executable, "-m", "warploom", "status", "--watch"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    process.terminate()
    process.communicate(timeout=20)
    assert ["free" in lines[1], "leased" in lines[3]] == [True, True]
