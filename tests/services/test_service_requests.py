from support.lab import Lab
from warploom.domain.tickets import Standing


async def test_a_free_card_is_granted_at_once(lab: Lab) -> None:
    await lab.host()
    answer = await lab.request(await lab.agent(), "train bert", "0")
    assert answer.state is Standing.ACTIVE
    assert answer.lease == "L-1"
    assert answer.cards == ["local/0"]
