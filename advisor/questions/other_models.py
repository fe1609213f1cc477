"""Names of models that another task takes: networks and language models are asked by their own."""

from __future__ import annotations

from advisor.errors import UsageError
from advisor.messages import FieldName, Message


def language_hint(name: str) -> Message | None:
    """That a language model is called so, or several are; None where none is."""
    from advisor.models.language.configs import bundled_language_models

    try:
        bundled_language_models().find(name)
    except UsageError as error:
        part = name.rpartition("/")[2].casefold()
        names = [one for one in error.suggestions if part in one.casefold()]
        if not names:
            return None
        return Message(
            "{names} and others are language models: ask for {task} generation (or finetuning)",
            names=names[:3],
            task=FieldName("task"),
        )
    return Message(
        "{network} is a language model: ask for {task} generation (or finetuning)",
        network=name,
        task=FieldName("task"),
    )


def network_hint(name: str) -> Message | None:
    """That a network is called so; None where none is."""
    from advisor.models.performance.networks import bundled_networks

    if not bundled_networks().knows(name):
        return None
    return Message(
        "{name} is a network: ask for {task} training (or inference)", name=name, task=FieldName("task")
    )
