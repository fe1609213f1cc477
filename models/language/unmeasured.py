"""What of a question no measured row is of, in words."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.messages import Message


def unmeasured_parts(
    gpu: str, model: str, task: Message, *, gpu_known: bool, model_known: bool
) -> Iterator[Message]:
    """A message for the GPU and for the model, where rows are of neither."""
    if not gpu_known:
        follows = Message("its rate follows from its data sheet")
        yield Message("{gpu} was not measured: {follows}", gpu=gpu, follows=follows)
    if not model_known:
        yield Message(
            "{network} was not measured in {task}: its rate follows from what it computes",
            network=model,
            task=task,
        )
