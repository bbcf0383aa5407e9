from dataclasses import replace
from datetime import timedelta

from support.databases import Clock
from support.lab import Lab
from support.rows import Sql
from warploom.domain.health import Check, Word
from warploom.domain.hosts import CardFault
from warploom.orchestrator.duties import LEAD_TIME
from warploom.services.health import LEADER, check_postgres
from warploom.store.health import read_facts
from warploom.store.leaders import take_lead


async def checks(lab: Lab) -> dict[str, Check]:
    found = await lab.app.health.doctor()
    assert all(check.fix for check in found if check.word is Word.BAD)
    return {check.name: check for check in found}


async def test_all_is_well_where_all_is_well(lab: Lab) -> None:
    await lab.host()
    async with lab.app.database.connection() as conn:
        await take_lead(conn, LEADER, "server 1", LEAD_TIME)
    found = await checks(lab)
    assert {name: check.word for name, check in found.items() if check.word is not Word.OK and name != "bus"} == {}
    assert found["leader"].text.startswith("server 1 for")
    assert found["local"].text.startswith("lab, driver 580.65, surveyed")


async def test_an_empty_installation_says_what_to_start(lab: Lab) -> None:
    found = await checks(lab)
    assert (found["hosts"].word, found["hosts"].text) == (Word.WARN, "no host has reported")
    assert (found["leader"].word, found["leader"].text) == (Word.BAD, "nobody does the orchestrator's duties")


async def test_a_waiting_ticket_outside_every_queue_is_bad_until_it_is_put_back(lab: Lab, sql: Sql) -> None:
    """Casebook C27."""
    await lab.host()
    await lab.hold(await lab.agent("claude-1"))
    await lab.request(await lab.agent("claude-2"))
    assert (await checks(lab))["queues"].text == "1 waiting; every waiting ticket stands in a queue"
    await sql.execute("delete from queue")
    assert (await checks(lab))["queues"].word is Word.BAD
    await lab.duties()
    assert (await checks(lab))["queues"].word is Word.OK


async def test_a_transaction_that_has_been_open_for_minutes_is_warned_of_by_its_process(lab: Lab, sql: Sql) -> None:
    """Casebook C74, in part: what holds the horizon is told."""
    async with sql.transaction():
        await sql.fetchval("select 1")
        async with lab.app.database.connection() as conn:
            facts = await read_facts(conn)
    assert facts.oldest_pid == sql.get_server_pid()
    check = check_postgres(replace(facts, oldest_transaction=timedelta(minutes=6)), "0001")
    assert (check.word, "oldest transaction 6 min" in check.text) == (Word.WARN, True)
    assert check.fix is not None
    assert f"process {facts.oldest_pid} " in check.fix


async def test_a_silent_host_is_bad(lab: Lab, clock: Clock) -> None:
    await lab.host(interval=2.0)
    clock.advance(seconds=40)
    found = await checks(lab)
    assert (found["local"].word, found["local"].text) == (Word.BAD, "silent for 40 s: nothing is granted there")
    assert found["local/0"].word is Word.BAD


async def test_a_host_whose_clock_is_off_is_warned_of(lab: Lab, sql: Sql) -> None:
    host = await lab.host()
    now = await sql.fetchval("select extract(epoch from clock_now())::float8")
    await host.survey(clock=now + 4.2)
    check = (await checks(lab))["local"]
    assert check.word is Word.WARN
    assert "ahead of the database's: expiry is judged by the database" in check.text


async def test_every_card_that_is_not_well_has_its_line(lab: Lab) -> None:
    host = await lab.host(cards=3)
    host.fail(0, CardFault.LOST)
    host.run(1, user="eve")
    await host.survey()
    await lab.app.cards.drain(await lab.operator(), "local/2", "new fan", preview=False)
    found = await checks(lab)
    assert {name: found[name].word for name in ("local/0", "local/1", "local/2")} == {
        "local/0": Word.BAD,
        "local/1": Word.WARN,
        "local/2": Word.WARN,
    }
    assert found["local/2"].text == "local/2 is drained by an operator: new fan"


async def test_no_line_of_the_doctor_names_a_destructive_command(lab: Lab, clock: Clock, sql: Sql) -> None:
    host = await lab.host(cards=2, interval=2.0)
    host.fail(0, CardFault.BLIND)
    await host.survey()
    await sql.execute("begin")
    await sql.execute("select pg_current_xact_id()")
    clock.advance(minutes=10)
    said = " ".join(f"{check.text} {check.fix or ''}".lower() for check in await lab.app.health.doctor())
    await sql.execute("rollback")
    assert not [word for word in ("kill", "drop", "rm ", "delete", "terminate", "truncate", "reset") if word in said]
