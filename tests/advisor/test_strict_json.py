"""What strangers write as JSON and nothing can hold is refused; everything else passes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.strict_json import UnfitError, check_json

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=9)
ORDINARY = st.recursive(
    st.none()
    | st.booleans()
    | TEXT
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=20,
)


@given(ORDINARY, st.booleans())
def test_what_can_be_held_passes(value, plain):
    check_json(json.dumps(value, ensure_ascii=plain).encode())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[" * 33 + "]" * 33, "too-deep"),
        ('{"a": 9223372036854775808}', "large-number"),
        ('{"a": 1e999}', "large-number"),
        ('{"a": -1.5E+400}', "large-number"),
        (r'{"a": "\u0000"}', "null-character"),
        (r'{"\udc00": 1}', "half-character"),
    ],
)
def test_what_cannot_is_named(text, kind):
    with pytest.raises(UnfitError) as raised:
        check_json(text.encode())
    assert raised.value.kind == kind
