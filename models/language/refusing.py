"""Why a language model cannot be answered for: by the kind of what is not covered."""

from __future__ import annotations

from advisor.errors import UsageError
from advisor.messages import FieldName, Message

_HINT = Message("name a model whose layers all keep keys and values, or measure this one")
_BUILT = Message(
    "ask for training or inference of the network that you build: {field} file.py:build, or in "
    "Python advisor.network(..)",
    field=FieldName("model"),
)
_REASONS = {
    "linear": Message("some of its layers have linear attention, whose state is not covered"),
    "hybrid": Message("some of its layers are state-space or convolutions, which are not covered"),
    "sparse": Message("its attention is sparse in a way that is not covered"),
    "uneven": Message("its layers differ in their heads or widths, which is not covered"),
    "crossed": Message("some of its layers attend to pictures, which is not covered"),
    "no_decoder": Message("it is no decoder that generates text"),
}


def uncovered(name: str, kind: str, *, field: str = "model") -> UsageError:
    """The error for a model whose attention or layers the formulas do not cover."""
    return UsageError(
        "'{model}' cannot be sized: {reason}",
        model=name,
        reason=_REASONS[kind],
        field=field,
        hint=_BUILT if kind == "no_decoder" else _HINT,
        code="uncovered_model",
    )
