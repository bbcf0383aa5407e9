import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.errors import MalformedInput
from warploom.domain.identifiers import lease_name, parse_lease, parse_ticket, ticket_name


@given(st.integers(1, 2**63 - 1))
def test_a_name_is_read_back_as_the_number_it_says(number: int) -> None:
    assert parse_ticket(ticket_name(number)) == number
    assert parse_lease(lease_name(number)) == number


@pytest.mark.parametrize("text", ["T-17", "t-17", "T17", "  T-17\n"])
def test_a_ticket_is_read_as_people_write_it(text: str) -> None:
    assert parse_ticket(text) == 17


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "L-17",
        "T-",
        "T-0",
        "T-017",
        "T--1",
        "T-1.5",
        "T-1e3",
        "T-١٧",
        "T-²",
        "T-1\x00",
        "T-1; drop table task",
        "T-9223372036854775808",
        "T-" + "9" * 1_000_000,
        "<script>",
        "\ud800",
    ],
)
def test_anything_else_is_no_ticket_and_is_told_what_one_looks_like(text: str) -> None:
    with pytest.raises(MalformedInput, match="is not a ticket") as refusal:
        parse_ticket(text)
    assert "T-17" in refusal.value.next_step
    assert len(str(refusal.value)) < 300
    str(refusal.value).encode("utf-8")


@given(st.text())
def test_no_text_breaks_the_reading_of_a_lease(text: str) -> None:
    try:
        assert parse_lease(text) >= 1
    except MalformedInput as refusal:
        str(refusal).encode("utf-8")
