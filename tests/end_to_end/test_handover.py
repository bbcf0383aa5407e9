"""A card is handed on by the very survey that its release asked for, long before the next one is due."""

from collections.abc import Generator

import pytest
from localstack import LocalStack, local_stack

from support.invariants import ask
from support.serving import eventually

INTERVAL = 60
NOTED = (
    "create table looked (at timestamptz not null)",
    "create function note_look() returns trigger language plpgsql as "
    "$$ begin insert into looked values (clock_now()); return null; end $$",
    "create trigger note_look after update of surveyed_at on host execute function note_look()",
)
LOOKS = """
select
  (select count(*) from looked where at >= released.at and at <= offered.at) as looks,
  (select max(at) from looked where at <= offered.at) = offered.at as is_by_the_look,
  extract(epoch from offered.at - released.at)::float8 as seconds
from event as released, event as offered
where released.kind = 'lease.released' and offered.kind = 'lease.offered'
"""


@pytest.fixture
def stack() -> Generator[LocalStack]:
    with local_stack(survey_seconds=INTERVAL) as running:
        yield running


def test_a_release_is_observed_clear_and_handed_on_in_one_survey_that_an_event_asks_for(stack: LocalStack) -> None:
    first, second = stack.caller("first"), stack.caller("second")
    held, waiting = first.request()["lease"], second.request()
    for statement in NOTED:
        ask(stack.database_url, statement)
    first.release(held)
    eventually(lambda: stack.ticket(waiting["ticket"])["state"] == "claimed")
    [seen] = ask(stack.database_url, LOOKS)
    assert (waiting["state"], seen["looks"], seen["is_by_the_look"]) == ("queued", 1, True)
    assert seen["seconds"] < INTERVAL
