"""The typed client against a real HTTP server that answers as it is told."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import samples
from scripted_server import ScriptedServer, Stream

from warploom.client.connection import Client
from warploom.client.pauses import pause_before
from warploom.domain.calibrations import Calibration, Foretold, SourceRecord
from warploom.domain.callers import Caller
from warploom.domain.errors import (
    Busy,
    Impossible,
    LeaseLost,
    MalformedInput,
    NotAllowed,
    NotFound,
    Unreachable,
    WarploomError,
    every_error,
)
from warploom.domain.etas import EtaWord
from warploom.domain.hosts import CardFact, Orders, Survey, SurveyAnswer
from warploom.domain.standings import Wish


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[Client]:
    with Client(server.url, Caller(agent="ann")) as connected:
        yield connected


def test_answers_are_values_of_the_domain(server: ScriptedServer, client: Client) -> None:
    rack = samples.rack(samples.busy_lane(), samples.lane(1))
    server.on("GET", "/api/v1/rack", rack)
    assert client.rack() == rack


def test_a_request_is_sent_whole_and_who_asks_is_in_the_headers(server: ScriptedServer, client: Client) -> None:
    server.on("POST", "/api/v1/tickets", samples.queued())
    assert client.request(Wish("eval", "0", minutes=20)) == samples.queued()
    call = server.calls[0]
    assert (call.body["job"], call.body["device"], call.body["minutes"]) == ("eval", "0", 20)
    assert call.headers["X-Warploom-Agent"] == "ann"


def test_every_method_calls_the_route_of_the_contract(server: ScriptedServer, client: Client) -> None:
    server.on("GET", "/api/v1/tickets/T-1(/wait)?", samples.queued())
    server.on("DELETE", "/api/v1/tickets/T-1", samples.ended())
    server.on("POST", "/api/v1/leases/L-2/.*", samples.lease())
    server.on("POST", "/api/v1/heartbeat", {"notices": ["hello"], "grants": [samples.offered()]})
    server.on("POST", "/api/v1/hosts/local/survey", SurveyAnswer(samples.NOW, 2.0, {"GPU-1": "clear"}))
    server.on("GET", "/api/v1/hosts/local/orders", Orders(survey=True, cursor="7"))
    server.on("GET", "/api/v1/events", {"events": [samples.event("5")], "cursor": "5"})
    server.on("GET", "/api/v1/doctor", [{"word": "ok", "name": "bus", "text": "fine"}])
    server.on("GET", "/health", {"status": "ok", "version": "1", "schema": "0001"})
    records = [SourceRecord(Foretold.START, EtaWord.HISTORY, 25, 3.2, 0.52, 0.84)]
    server.on("GET", "/api/v1/calibration", Calibration(records))
    assert client.calibration() == Calibration(records)
    assert client.explain("T-1") == client.wait("T-1", 3) == samples.queued()
    assert client.leave("T-1") == samples.ended()
    answers = [client.accept("L-2"), client.extend("L-2", 5, "why"), client.report("L-2", 1, 9), client.release("L-2")]
    assert answers == [samples.lease()] * 4
    assert client.heartbeat().grants == [samples.offered()]
    card = CardFact("GPU-1", 0, "H200", 1024)
    assert client.survey("local", Survey("fake", None, "1", 2.0, [card])).conditions == {"GPU-1": "clear"}
    assert client.orders("local", "6", 99) == Orders(survey=True, cursor="7")
    assert client.events("4", 7).events == [samples.event("5")]
    assert client.doctor()[0].name == "bus"
    assert client.health().schema == "0001"
    queries = {call.path: call.query for call in server.calls}
    assert queries["/api/v1/tickets/T-1/wait"] == "seconds=3"
    assert queries["/api/v1/hosts/local/orders"] == "seconds=55&cursor=6"
    assert queries["/api/v1/events"] == "limit=7&after=4"


def test_draining_names_host_and_index_and_refuses_what_is_no_card(server: ScriptedServer, client: Client) -> None:
    answer = {"card": "local/0", "service": "draining", "done": False, "consequences": ["one waits"]}
    server.on("POST", "/api/v1/cards/local/0/(drain|undrain)", answer)
    assert client.drain("local/0", "fan", preview=True).consequences == ["one waits"]
    client.undrain("local/0")
    assert [call.body for call in server.calls] == [
        {"reason": "fan", "preview": True},
        {"reason": None, "preview": False},
    ]
    for nonsense in ("0", "/0", "local/", ""):
        with pytest.raises(MalformedInput):
            client.drain(nonsense)


@pytest.mark.parametrize("kind", every_error())
def test_each_refusal_is_raised_as_the_error_it_was(
    server: ScriptedServer, client: Client, kind: type[WarploomError]
) -> None:
    server.on("GET", "/api/v1/rack", kind("It is so.", "Do this."))
    with pytest.raises(kind) as caught:
        client.rack()
    assert (caught.value.cause, caught.value.next_step) == ("It is so.", "Do this.")


def test_a_code_from_a_newer_server_is_still_an_error_with_its_sentences(
    server: ScriptedServer, client: Client
) -> None:
    class FromTheFuture(WarploomError):
        code = "from_the_future"
        status = 418

    server.on("GET", "/api/v1/rack", FromTheFuture("It is so.", "Do this."))
    with pytest.raises(WarploomError, match=r"It is so\. Do this\."):
        client.rack()


@pytest.mark.parametrize("answer", [b"<html>hello</html>", b"", b"[]", b'{"at": 3}', b"\xff\xfe"])
def test_an_answer_that_is_not_ours_is_unreachable_and_says_where(
    server: ScriptedServer, client: Client, answer: bytes
) -> None:
    server.on("GET", "/api/v1/rack", answer)
    with pytest.raises(Unreachable, match=server.url):
        client.rack()


def test_a_path_cannot_be_climbed_out_of(server: ScriptedServer, client: Client) -> None:
    with pytest.raises(NotFound):
        client.explain("../../leases/L-1/release?x=1#y")
    assert server.calls[0].path == "/api/v1/tickets/..%2F..%2Fleases%2FL-1%2Frelease%3Fx%3D1%23y"


def test_connections_are_kept_and_replaced_unseen_when_the_server_closed_them(
    server: ScriptedServer, client: Client
) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.lane()))
    client.rack()
    server.stop()
    server.start_again()
    client.rack()
    client.rack()
    assert len(server.called("GET", "/api/v1/rack")) == 3


def test_several_threads_may_share_a_client(server: ScriptedServer, client: Client) -> None:
    server.on("GET", "/api/v1/rack", samples.rack(samples.lane()))
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                client.rack()
        except WarploomError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert len(server.calls) == 160


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8765",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://x/y",
        "http://x y",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(MalformedInput, match="is not the address of a server"):
        Client(url)


def test_a_server_that_is_away_is_unreachable_with_a_next_step() -> None:
    with pytest.raises(Unreachable) as caught:
        Client("http://127.0.0.1:9").rack()
    assert caught.value.cause == "No Warploom server answers at http://127.0.0.1:9 (connection refused)."
    assert "warploom up" in caught.value.next_step


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"answers at http://nowhere\.invalid"):
        Client("http://nowhere.invalid").rack()


def test_the_stream_of_events_goes_on_where_it_was_cut(server: ScriptedServer, client: Client) -> None:
    first, second, third = (samples.event(str(number)) for number in (1, 2, 3))
    server.on("GET", "/events", Stream([first, second]), Busy("Away.", "Wait."), Stream([third]))
    stream = client.event_stream("0")
    assert [next(stream), next(stream), next(stream)] == [first, second, third]
    assert [call.headers["Last-Event-ID"] for call in server.called("GET", "/events")] == ["0", "2", "2"]


def test_a_stream_without_a_cursor_starts_at_the_end_of_the_log(server: ScriptedServer, client: Client) -> None:
    server.on("GET", "/api/v1/events", {"events": [samples.event("41")], "cursor": "41"})
    server.on("GET", "/events", Stream([samples.event("42")]))
    assert next(client.event_stream(mine=True)).cursor == "42"
    call = server.called("GET", "/events")[0]
    assert (call.headers["Last-Event-ID"], call.query) == ("41", "session=mine")


def test_a_stream_that_is_refused_raises_the_refusal(server: ScriptedServer, client: Client) -> None:
    server.on("GET", "/events", NotAllowed("A key is needed.", "Set WARPLOOM_KEY."))
    with pytest.raises(NotAllowed):
        next(client.event_stream("0"))


def test_a_stream_gives_up_when_its_patience_is_over(server: ScriptedServer, client: Client) -> None:
    server.on("GET", "/events", Busy("Away.", "Wait."))
    with pytest.raises(Busy):
        next(client.event_stream("0", patience=0))


def test_pauses_grow_to_five_seconds_and_differ() -> None:
    assert pause_before(1) < 0.3
    assert all(2.5 <= pause_before(attempt) <= 5 for attempt in (10, 1000))
    assert len({pause_before(5) for _ in range(20)}) > 1


def test_a_lost_lease_is_raised_from_each_call_that_names_it(server: ScriptedServer, client: Client) -> None:
    server.on("POST", "/api/v1/leases/.*", LeaseLost("L-2 ended.", "Ask again."))
    for call in (
        client.accept,
        client.release,
        lambda lease: client.report(lease, 1),
        lambda lease: client.extend(lease, 1, "x"),
    ):
        with pytest.raises(LeaseLost):
            call("L-2")


def test_the_most_that_could_be_had_reaches_the_caller(server: ScriptedServer, client: Client) -> None:
    server.on("POST", "/api/v1/tickets", Impossible("No card has 200 GiB.", "Ask for at most 141."))
    with pytest.raises(Impossible, match="Ask for at most 141"):
        client.request(Wish("eval", memory_gib=200))


def test_no_proxy_is_used_for_this_machine(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.on("GET", "/health", {"status": "ok", "version": "1", "schema": "0001"})
    assert Client(server.url).health().status == "ok"


def test_a_proxy_that_the_environment_names_is_used_beyond_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="connection refused"):
        Client("http://warploom.invalid").health()
