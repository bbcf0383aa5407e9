import unicodedata
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.errors import MalformedInput
from warploom.domain.texts import long_text, one_line, optional_line, spoken_duration, spoken_list, spoken_memory

anything = st.text(st.characters(), max_size=120)


@given(anything)
def test_a_line_is_clean_within_its_limit_or_refused(text: str) -> None:
    try:
        line = one_line(text, "job", 40)
    except MalformedInput:
        return
    assert 1 <= len(line) <= 40
    assert line == " ".join(line.split())
    assert not any(unicodedata.category(mark).startswith("C") for mark in line)
    line.encode("utf-8")


@given(anything)
def test_a_clean_line_stays_as_it_is(text: str) -> None:
    try:
        line = one_line(text, "job", 40)
    except MalformedInput:
        return
    assert one_line(line, "job", 40) == line


@given(anything)
def test_a_text_of_several_lines_is_clean_and_never_blank_and_stays_as_it_is_once_cleaned(text: str) -> None:
    clean = long_text(text, "context")
    if clean is None:
        return
    assert clean == clean.strip() != ""
    assert not any(unicodedata.category(mark).startswith("C") for mark in clean if mark not in "\n\t")
    assert long_text(clean, "context") == clean


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("train\nlease L-1 granted", "train lease L-1 granted"),
        ("a\x00b", "a b"),
        ("\x1b[31mred\x1b[0m", "[31mred [0m"),
        ("\u202egnp.exe", "gnp.exe"),
        ("lone \ud800 half", "lone half"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("  näïve   тест 学習 ", "näïve тест 学習"),
    ],
)
def test_marks_that_could_forge_a_line_become_blanks_and_all_else_stays(text: str, line: str) -> None:
    assert one_line(text, "job") == line


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\x00\x01", "\u200b\u200e", "\ud800"])
def test_a_text_without_a_visible_mark_is_empty(text: str) -> None:
    with pytest.raises(MalformedInput, match="The job is empty"):
        one_line(text, "job")


@pytest.mark.parametrize("text", ["x" * 201, "x" * 1_000_000, "\x00" * 1_000_000])
def test_a_text_beyond_the_limit_is_refused_with_its_length_and_the_limit(text: str) -> None:
    with pytest.raises(MalformedInput) as refusal:
        one_line(text, "job", 200)
    assert f"{len(text):,} characters" in refusal.value.cause
    assert "200" in refusal.value.next_step
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("text", [None, "", "  ", "\n"])
def test_a_missing_or_blank_optional_line_is_none(text: str | None) -> None:
    assert optional_line(text, "reason") is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (12 * 60, "12 min"),
        (59 * 60 + 45, "1 h"),
        (2 * 3600 + 5 * 60, "2 h 5 min"),
        (47 * 3600, "47 h"),
        (48 * 3600, "2 d"),
        (76 * 3600, "3 d 4 h"),
    ],
)
def test_a_duration_is_said_as_a_person_would(seconds: float, said: str) -> None:
    assert spoken_duration(timedelta(seconds=seconds)) == said


@given(st.timedeltas())
def test_every_duration_can_be_said_and_none_is_negative(span: timedelta) -> None:
    said = spoken_duration(span)
    assert "-" not in said
    assert said.split()[1] in ("s", "min", "h", "d")
    assert " 60 min" not in f" {said}"
    assert " 24 h" not in f" {said}" or "d" not in said


@pytest.mark.parametrize(
    ("mib", "said"),
    [(512, "512 MiB"), (1024, "1 GiB"), (22_938, "22.4 GiB"), (144_384, "141 GiB"), (143_771, "140 GiB")],
)
def test_memory_is_said_in_mib_or_gib(mib: int, said: str) -> None:
    assert spoken_memory(mib) == said


@pytest.mark.parametrize(
    ("items", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_are_joined_as_a_sentence_does(items: list[str], said: str) -> None:
    assert spoken_list(items) == said
