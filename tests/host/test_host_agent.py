"""The host agent keeps telling, whatever happens around it."""

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from survey_server import PATIENCE, SurveyServer

from warploom.client.connection import Client
from warploom.domain.callers import Caller, Role
from warploom.domain.errors import ProviderMissing
from warploom.domain.hosts import CardFact, Survey, SurveyAnswer
from warploom.host.agent import HostAgent, Pace
from warploom.host.fake import FakeProbe
from warploom.host.fake_cards import FakeCards
from warploom.host.link import Link
from warploom.host.probe import GpuProbe, Proof, Provider, Reading
from warploom.host.processes import ProcessBook
from warploom.host.survey import Surveyor

BRISK = timedelta(seconds=0.05)
NEVER = timedelta(seconds=3600)
Start = Callable[..., HostAgent]


class OddProbe:
    """A provider of one card that fails as it is told to."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def describe(self) -> Provider:
        if self.error is not None:
            raise self.error
        return Provider("odd", "1")

    def read(self) -> Reading:
        return Reading([CardFact("GPU-odd", 0, "ODD", 1024)])

    def prove(self, uuid: str) -> Proof:
        return Proof(True, uuid)


class SlowLog(logging.Handler):
    """A log that takes its time to write a line, as a full disk may."""

    SECONDS = 0.3

    def emit(self, record: logging.LogRecord) -> None:
        threading.Event().wait(self.SECONDS)


@pytest.fixture
def server() -> Iterator[SurveyServer]:
    server = SurveyServer()
    yield server
    server.close()


@pytest.fixture
def start(server: SurveyServer) -> Iterator[Start]:
    """Start an agent for a probe; it ends with the test."""
    running: list[tuple[HostAgent, threading.Thread]] = []

    def start(probe: GpuProbe, interval: timedelta = BRISK, url: Callable[[], str] = lambda: server.url) -> HostAgent:
        caller = Caller(role=Role.HOST, host="local")
        agent = HostAgent("local", Surveyor(probe, interval), Link(lambda: Client(url(), caller)))
        thread = threading.Thread(target=agent.run, daemon=True)
        thread.start()
        running.append((agent, thread))
        return agent

    yield start
    for agent, thread in running:
        agent.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture
def probe(cards: FakeCards) -> FakeProbe:
    return FakeProbe(cards, 2, ProcessBook())


def messages(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if part in record.getMessage()]


class TestSurveys:
    def test_it_tells_its_cards_again_and_again(self, server, start, probe, cards):
        start(probe)

        survey = server.await_surveys(3)[-1]

        assert (survey.provider, survey.driver, survey.problem) == ("fake", "fake", None)
        assert [card.uuid for card in survey.cards] == [cards.uuid(0), cards.uuid(1)]
        assert survey.interval_seconds == 0.05
        assert survey.clock is not None
        assert survey.age_seconds >= 0

    def test_what_delays_the_telling_makes_a_look_older(self, server, start, probe):
        slow = SlowLog(logging.INFO)
        log = logging.getLogger("warploom.host.agent")
        log.addHandler(slow)
        log.setLevel(logging.INFO)
        try:
            start(probe, NEVER)
            assert server.await_surveys(1)[0].age_seconds >= SlowLog.SECONDS
        finally:
            log.removeHandler(slow)
            log.setLevel(logging.NOTSET)

    def test_it_tells_of_a_process_as_soon_as_it_is_there(self, server, start, probe, train):
        start(probe)
        training = train(9000, WARPLOOM_LEASE="L-42")

        server.await_that(lambda: bool(server.surveys and server.surveys[-1].cards[0].processes), "process")

        (process,) = server.surveys[-1].cards[0].processes
        assert (process.pid, process.lease) == (training.pid, "L-42")

    def test_it_keeps_its_connections(self, server, start, probe):
        start(probe)
        server.await_surveys(20)

        assert len(server.connections) <= 2

    def test_a_machine_without_cards_is_told_of_too(self, server, start):
        probe = OddProbe()
        probe.error = ProviderMissing("no driver found.", "Everything else works")
        start(probe)

        survey = server.await_surveys(2)[-1]

        assert (survey.provider, survey.driver, survey.cards) == ("none", None, [])
        assert survey.problem == "no driver found. Everything else works"


class TestOrders:
    def test_an_order_is_followed_at_once_and_not_at_the_next_interval(self, server, start, probe):
        start(probe, NEVER)
        server.await_surveys(1)
        server.await_that(lambda: "orders" in server.calls, "poll")

        for count in range(2, 6):
            server.order_survey()
            server.await_surveys(count)

    def test_nothing_more_is_asked_for_until_the_wanted_look_was_told(self, server, start, probe):
        start(probe, NEVER)
        server.orders_at_once = True
        server.await_surveys(10)
        server.orders_at_once = False

        polls = [place for place, call in enumerate(server.calls) if call == "orders"]
        for this, following in pairwise(polls):
            assert "survey" in server.calls[this:following]

    def test_a_card_that_settles_is_looked_at_quickly_until_it_is_clear(self, server, start, probe):
        server.judge = lambda seen: "settling" if seen < 6 else "clear"
        start(probe, NEVER)

        server.await_surveys(6)


class TestOutages:
    def test_it_goes_on_when_the_server_is_back_and_says_both_once(self, start, probe, caplog):
        caplog.set_level(logging.INFO)
        first = SurveyServer()
        start(probe, url=lambda: first.url)
        first.await_surveys(2)
        first.close()
        _await_message(caplog, "Trying again")

        second = SurveyServer(first.port)
        second.await_surveys(3)
        _await_message(caplog, "answers again")
        told = [len(messages(caplog, part)) for part in (f"No Warploom server answers at {first.url}", "answers again")]
        second.close()

        assert told == [1, 1]

    def test_it_finds_a_server_that_came_back_elsewhere(self, server, start, probe):
        first = SurveyServer()
        addresses = [first.url]
        start(probe, url=lambda: addresses[-1])
        first.await_surveys(1)
        addresses.append(server.url)
        first.close()

        server.await_surveys(3)

    def test_it_shows_its_cards_at_once_to_a_server_that_is_back(self, start, probe, caplog):
        first = SurveyServer()
        start(probe, NEVER, url=lambda: first.url)
        first.await_surveys(1)
        first.await_that(lambda: "orders" in first.calls, "poll")
        first.close()
        _await_message(caplog, "Trying again")
        second = SurveyServer(first.port)

        second.await_surveys(1)
        second.close()

    def test_a_refused_survey_is_tried_again_and_logged_once(self, server, start, probe, caplog):
        server.refusal = (422, "malformed")
        start(probe)
        for tries in range(1, 4):
            server.await_that(lambda tries=tries: server.calls.count("refused") >= tries, "next try")
            server.order_survey()
        server.refusal = None
        server.await_surveys(2)

        assert len(messages(caplog, "That is refused.")) == 1

    def test_a_round_that_fails_in_an_unforeseen_way_is_logged_and_the_next_follows(self, server, start, caplog):
        probe = OddProbe()
        probe.error = RuntimeError("nobody thought of this")
        start(probe)
        _await_message(caplog, "This round failed")
        probe.error = None

        assert [card.uuid for card in server.await_surveys(1)[0].cards] == ["GPU-odd"]


def _await_message(caplog: pytest.LogCaptureFixture, part: str) -> None:
    poll = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if messages(caplog, part):
            return
        poll.wait(0.01)
    pytest.fail(f"nobody said {part!r}")


class TestPace:
    def answer(self, *conditions: str) -> SurveyAnswer:
        return SurveyAnswer(datetime(2030, 1, 1, tzinfo=UTC), 2, dict(enumerate(conditions)))  # pyright: ignore

    def test_it_is_the_interval_while_nothing_settles(self):
        assert Pace(timedelta(seconds=2)).after(self.answer("clear", "occupied")) == timedelta(seconds=2)

    def test_it_is_quick_while_a_card_settles_and_slows_to_the_interval(self):
        pace = Pace(timedelta(seconds=1), quick=timedelta(seconds=0.4))

        pauses = [pace.after(self.answer("clear", "settling")).total_seconds() for _ in range(5)]

        assert pauses == pytest.approx([0.4, 0.6, 0.9, 1.0, 1.0])

    @pytest.mark.parametrize("renew", [Pace.hurry, lambda pace: pace.after(TestPace().answer("clear"))])
    def test_it_is_quick_again_after_an_order_or_a_card_that_cleared(self, renew):
        pace = Pace(timedelta(seconds=1), quick=timedelta(seconds=0.4))
        for _ in range(5):
            pace.after(self.answer("settling"))
        renew(pace)

        assert pace.after(self.answer("settling")) == timedelta(seconds=0.4)


def test_a_survey_outlives_the_trip_over_the_wire(
    server: SurveyServer, start: Start, probe: FakeProbe, cards: FakeCards
):
    cards.add_process(0)
    cards.set_not_reported(0, "utilisation", "process_memory")
    cards.set_lost(1)
    start(probe)

    told = server.await_surveys(1)[0]

    assert isinstance(told, Survey)
    assert (told.cards[0].utilisation, told.cards[0].processes[0].memory_mib) == (None, None)
    assert told.cards[1].fault == "lost"
