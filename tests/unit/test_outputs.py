import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warploom.domain.errors import MalformedInput
from warploom.domain.outputs import DEEPEST, LARGEST, OUTPUT_LIMIT, read_output

texts = st.text(st.characters(), max_size=20)
outputs = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST, LARGEST)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(outputs)
def test_whatever_is_json_is_kept_in_a_form_that_a_database_takes(output: object) -> None:
    kept = read_output(output)
    written = json.dumps(kept, ensure_ascii=False, allow_nan=False)
    assert "\\u0000" not in written
    written.encode("utf-8")
    assert read_output(kept) == kept


@given(st.dictionaries(st.text(st.characters(categories=["L", "N", "P", "S"])), st.booleans() | st.none()))
def test_plain_json_stays_as_it_is(output: dict[str, object]) -> None:
    assert read_output(output) == output


@pytest.mark.parametrize(
    "output",
    [
        float("nan"),
        {"loss": [float("inf")]},
        LARGEST + 1,
        {"when": object()},
        {1, 2},
        b"bytes",
        json.loads("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)),
        "x" * OUTPUT_LIMIT,
    ],
    ids=["NaN", "infinity", "a huge number", "an object", "a set", "bytes", "too deep", "too long"],
)
def test_what_cannot_be_kept_is_refused_in_a_sentence(output: object) -> None:
    with pytest.raises(MalformedInput, match=r"^The output "):
        read_output(output)
