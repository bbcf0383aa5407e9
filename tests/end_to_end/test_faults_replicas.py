"""Two servers on one database: nothing that happens by itself happens twice, whichever of them is killed."""

from collections import Counter

from support.invariants import ask, assert_whole
from support.serving import Caller, Serve, eventually

CARDS = 12


def leader_of(database_url: str) -> int:
    """Return the process that leads now."""
    query = "select holder from leader where expires_at > clock_now()"
    holder = eventually(lambda: ask(database_url, query))[0]["holder"]
    return int(holder.split()[1])


def ends(database_url: str) -> Counter[str]:
    """Count the events of leases that ended by themselves, by kind; fail when a lease has two of one kind."""
    rows = ask(database_url, "select kind, lease_id from event where kind in ('lease.expired', 'lease.lapsed')")
    each = [(row["kind"], row["lease_id"]) for row in rows]
    assert len(set(each)) == len(each)
    return Counter(kind for kind, _ in each)


def test_every_lease_expires_once_and_every_offer_lapses_once_while_the_leader_is_killed(
    serve: Serve, database_url: str
) -> None:
    servers = serve(2)
    agents = [Caller(servers[number % 2].url, f"agent-{number}") for number in range(2 * CARDS)]
    agents[0].survey(cards=CARDS)
    for number, agent in enumerate(agents):
        agent.request(device=str(number % CARDS))
    ask(database_url, "update lease set expires_at = clock_now() where state = 'active'")
    eventually(lambda: ends(database_url)["lease.expired"] > 0)
    leader = leader_of(database_url)
    killed, alive = sorted(servers, key=lambda server: server.pid != leader)
    killed.kill()
    ask(database_url, "update leader set expires_at = clock_now()")

    eventually(lambda: leader_of(database_url) == alive.pid)
    eventually(lambda: ends(database_url)["lease.expired"] == CARDS)
    Caller(alive.url).survey(cards=CARDS)
    assert _offered(database_url) == CARDS
    ask(database_url, "update lease set expires_at = clock_now() where state = 'offered'")
    killed.start()
    killed.until_healthy()
    eventually(lambda: ends(database_url)["lease.lapsed"] >= CARDS)
    assert ends(database_url)["lease.expired"] == CARDS
    assert_whole(database_url)


def _offered(database_url: str) -> int:
    return ask(database_url, "select count(*) as offered from lease where state = 'offered'")[0]["offered"]
