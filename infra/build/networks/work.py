"""Captures variants side by side into a work folder: one file a variant, so a stop loses little."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from advisor.infra.build.networks.variants import Variant
from advisor.records import asdict

# A worker is renewed after so many variants: the libraries keep some of what they build.
_VARIANTS_A_WORKER = 150


class TooLongError(BaseException):
    """A variant took longer than it may; no other way to capture it is tried then."""


def result_path(folder: Path, key: str) -> Path:
    """Where what was found of a variant lies."""
    return folder / (key.replace("/", "__").replace(":", "=") + ".json")


def write_result(folder: Path, document: Mapping[str, Any]) -> None:
    """Keep what was found of the variant `document["key"]`, whole or not at all."""
    path = result_path(folder, document["key"])
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, separators=(",", ":")))
    part.replace(path)


def failure(error: BaseException) -> str:
    """Why a variant could not be followed, in a line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first[:200]}"


def is_captured(path: Path) -> bool:
    """Whether facts lie there; what failed is tried again."""
    return path.exists() and "failed" not in json.loads(path.read_text())


def capture_all(
    variants: Sequence[Variant], folder: Path, *, processes: int, seconds_each: float
) -> Iterator[tuple[str, str]]:
    """(key, why not) of each variant that has no file yet, as they are done; "" is well done."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [entry for entry in variants if not is_captured(result_path(folder, entry.key))]
    if processes == 1:
        for variant in missing:
            yield _captured(variant, folder, seconds_each)
        return
    # Variants hold functions, which only a fork hands on.
    context = multiprocessing.get_context("fork")
    work = [(variant, folder, seconds_each) for variant in missing]
    _SHARED[:] = work
    with context.Pool(processes, maxtasksperchild=_VARIANTS_A_WORKER) as pool:
        yield from pool.imap(_numbered, range(len(work)))


_SHARED: list[tuple[Variant, Path, float]] = []


def _numbered(number: int) -> tuple[str, str]:
    return _captured(*_SHARED[number])


def _captured(variant: Variant, folder: Path, seconds: float) -> tuple[str, str]:
    import torch

    from advisor.models.zoo.building import quiet
    from advisor.models.zoo.step_facts import network_facts

    if is_captured(result_path(folder, variant.key)):
        return variant.key, ""
    torch.set_num_threads(1)
    start = time.monotonic()
    document: dict[str, Any]
    try:
        with quiet(), within(seconds):
            facts = network_facts(variant.subject(), training=variant.training)
        document, why = {"key": variant.key, **asdict(facts)}, ""
    except (Exception, TooLongError) as error:
        why = failure(error)
        document = {"key": variant.key, "failed": why}
    write_result(folder, {**document, "seconds": round(time.monotonic() - start, 2)})
    return variant.key, why


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """`TooLongError` where what is done inside takes longer."""

    def stop(*_: Any) -> None:
        raise TooLongError(f"longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
