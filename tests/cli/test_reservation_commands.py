"""Casebook C41: `warploom reserve`, `reservations` and `unreserve`, and the moments and lengths that people write."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import samples
from rich.cells import cell_len
from scripted_server import Call, Command, ScriptedServer

from warploom.cli.moments import read_minutes, read_moment, window_text
from warploom.cli.screen import screen
from warploom.domain.cards import CardState
from warploom.domain.errors import MalformedInput, NotYours
from warploom.domain.reservations import ReservationAnswer, ReservationView

HOUR = timedelta(hours=1)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is two hours ahead of universal time."""
    monkeypatch.setenv("TZ", "EET-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def view(**changes: object) -> ReservationView:
    starts = datetime.now(UTC) + HOUR
    facts = {
        "reservation": "R-3",
        "card": "local/0",
        "agent": "ada",
        "title": "sweep",
        "starts_at": starts,
        "ends_at": starts + 2 * HOUR,
        "is_current": False,
    }
    return ReservationView(**(facts | changes))  # type: ignore[arg-type]


def answer(*, done: bool = True, is_own: bool = True) -> ReservationAnswer:
    return ReservationAnswer(view(), done, is_own, ["It pushes back T-18."], "Ask for it then.")


def test_a_card_is_reserved_from_an_absolute_moment_on(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/reservations", answer())
    done = warploom("reserve", "0", "--from", "2026-03-01T18:00+01:00", "--for", "1h30", "--title", "sweep")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("reserved R-3: local/0 for ada, ")
    assert lines[1:] == ["  - It pushes back T-18.", "next    Ask for it then."]
    (call,) = server.called("POST", "/api/v1/reservations")
    assert datetime.fromisoformat(call.body.pop("starts_at")) == datetime(2026, 3, 1, 17, tzinfo=UTC)
    assert call.body == {"card": "0", "minutes": 90.0, "title": "sweep"}


def test_without_a_start_the_server_s_clock_says_when_now_is(server: ScriptedServer, warploom: Command) -> None:
    server.on("POST", "/api/v1/reservations", answer())
    done = warploom("reserve", "local/0", "--for", "2h", "--json")
    assert (done.returncode, json.loads(done.stdout)["reservation"]["reservation"]) == (0, "R-3")
    (call,) = server.called("POST", "/api/v1/reservations")
    assert call.body["starts_at"] is None


def test_a_length_is_needed(server: ScriptedServer, warploom: Command) -> None:
    assert warploom("reserve", "0").returncode == 2
    refused = warploom("reserve", "0", "--for", "soon")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (3, "'soon' is not a length of time.")
    assert server.calls == []


def test_the_reservations_are_listed_with_their_zone(server: ScriptedServer, warploom: Command) -> None:
    server.on("GET", "/api/v1/reservations", [view(), view(reservation="R-4", is_current=True, title=None)], [])
    lines = warploom("reservations", TZ="UTC").stdout.splitlines()
    assert lines[0].startswith("R-3  local/0  ada  ")
    assert lines[0].endswith("sweep")
    assert lines[1].endswith(" UTC (now)")
    assert warploom("reservations").stdout == "No card is reserved.\n"


def test_one_s_own_is_given_up_at_once(server: ScriptedServer, warploom: Command) -> None:
    server.on("DELETE", "/api/v1/reservations/R-3", answer(done=False), answer())
    done = warploom("unreserve", "r-3")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "gave up R-3")
    assert [call.query for call in server.calls] == ["preview=true", "preview=false"]


def test_somebody_else_s_is_only_given_up_with_a_yes(server: ScriptedServer, warploom: Command) -> None:
    def told(call: Call) -> ReservationAnswer:
        return answer(done=call.query == "preview=false", is_own=False)

    server.on("DELETE", "/api/v1/reservations/R-3", told)
    shown = warploom("unreserve", "R-3")
    assert shown.returncode == 3
    assert shown.stdout.startswith("would give up R-3: local/0 for ada")
    assert "add --yes to do this to R-3 of ada" in shown.stderr
    assert json.loads(warploom("unreserve", "R-3", "--json").stdout)["done"] is False
    assert {call.query for call in server.calls} == {"preview=true"}
    assert warploom("unreserve", "R-3", "--yes").returncode == 0
    assert server.calls[-1].query == "preview=false"


def test_a_refusal_is_shown_as_it_is(server: ScriptedServer, warploom: Command) -> None:
    server.on("DELETE", "/api/v1/reservations/R-3", NotYours("R-3 belongs to ada.", "Ask ada."))
    done = warploom("unreserve", "R-3")
    assert (done.returncode, done.stderr) == (3, "R-3 belongs to ada.\nAsk ada.\n")
    assert warploom("unreserve", "T-3").returncode == 3


@pytest.mark.parametrize(
    ("text", "minutes"), [("2h", 120), ("90min", 90), ("1h30", 90), ("1h 30m", 90), ("45", 45), (" 1.5 hours ", 90)]
)
def test_a_length_reads_as_people_write_it(text: str, minutes: float) -> None:
    assert read_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "h", "min", "two", "-5", "1h30h", "2d", "٣", "1e3", "9" * 400])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(MalformedInput, match="is not a length of time"):
        read_minutes(text)


def test_a_moment_reads_in_the_reader_s_own_zone(zone: None) -> None:
    now = datetime(2026, 3, 1, 16, 30, tzinfo=UTC).astimezone()
    assert read_moment("now", now) is None
    assert read_moment("+90min", now) == now + timedelta(minutes=90)
    assert read_moment("18:30", now) == now
    assert read_moment("19:00", now) == datetime(2026, 3, 1, 17, 0, tzinfo=UTC)
    assert read_moment("8:05", now) == datetime(2026, 3, 2, 6, 5, tzinfo=UTC)
    assert read_moment("2026-03-02T18:00", now) == datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
    assert read_moment("2026-03-02 18:00Z", now) == datetime(2026, 3, 2, 18, 0, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "25:00", "18", "tomorrow", "+", "18:00:00:00", "9999-99-99", "x" * 900])
def test_what_is_no_moment_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(MalformedInput, match=r"(is not a moment\. Give now, 18:00|is not a length of time)"):
        read_moment(text, datetime.now().astimezone())


def test_a_window_is_written_by_the_reader_s_clock_and_names_its_zone(zone: None) -> None:
    now = datetime(2026, 3, 1, 16, 30, tzinfo=UTC)
    assert window_text(now, now + HOUR, now) == "18:30–19:30 EET"
    assert window_text(now + 24 * HOUR, now + 30 * HOUR, now) == "Mon 2 Mar 18:30–Tue 3 Mar 00:30 EET"


def test_status_shows_what_is_reserved_among_those_who_wait(zone: None) -> None:
    ahead = view(starts_at=samples.NOW, ends_at=samples.NOW + 2 * HOUR)
    held = samples.busy_lane(0, reservations=[ahead], holder=samples.holder(runs_into="R-3"))
    reserved = samples.lane(1, CardState.RESERVED, reservations=[ahead], say="Observed clear, and reserved for ada.")
    shown = screen(samples.rack(held, reserved), 100).plain
    assert "◇  R-3  ada  16:20–18:20 EET  sweep" in shown
    assert "runs into R-3" in shown
    assert "◇ reserved" in shown
    assert max(map(cell_len, screen(samples.rack(held, reserved), 60).plain.splitlines())) <= 60
