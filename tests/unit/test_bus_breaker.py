from warploom.bus.breaker import LONGEST_PAUSE, SHORTEST_PAUSE, Breaker


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_call_is_the_trial() -> None:
    breaker = Breaker(Hand())
    assert (breaker.is_closed, breaker.pause()) == (False, 0.0)


def test_each_failure_in_a_row_doubles_the_pause_up_to_a_cap() -> None:
    breaker, longest = Breaker(Hand()), SHORTEST_PAUSE
    for _ in range(12):
        breaker.failed()
        assert longest / 2 <= breaker.pause() <= longest
        longest = min(2 * longest, LONGEST_PAUSE)
    assert longest == LONGEST_PAUSE


def test_a_pause_is_over_when_its_time_has_passed() -> None:
    hand = Hand()
    breaker = Breaker(hand)
    breaker.failed()
    hand.now = SHORTEST_PAUSE
    assert breaker.pause() == 0.0


def test_a_call_that_works_closes_it_and_forgets_the_failures() -> None:
    breaker = Breaker(Hand())
    for _ in range(9):
        breaker.failed()
    breaker.worked()
    assert (breaker.is_closed, breaker.pause()) == (True, 0.0)
    breaker.failed()
    assert breaker.pause() <= SHORTEST_PAUSE


def test_it_says_how_long_it_has_been_open_or_closed() -> None:
    hand = Hand()
    breaker = Breaker(hand)
    breaker.failed()
    hand.now = 7.0
    breaker.failed()
    assert breaker.seconds_since_change() == 7.0
    breaker.worked()
    hand.now = 9.0
    breaker.worked()
    assert breaker.seconds_since_change() == 2.0
