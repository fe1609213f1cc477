"""`advisor dataset`: makes, converts, describes and checks data sets."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from advisor.cli.printing import print_answer
from advisor.cli.questions import FieldType, output_option, typed_option
from advisor.cli.sweep_view import dataset_progress
from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError
from advisor.messages import format_mib, format_rate
from advisor.questions.fields import Choice, Number
from advisor.records import asdict

_FORMAT, _COUNT = Choice("format", ("tar", "lmdb", "recordio", "files")), Number(whole=True)
_out_option = click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="New folder to write."
)


@click.group()
def dataset() -> None:
    """Make, convert and look at data sets; `sweep --data` and `recommend --dataset` take them.

    \b
    advisor dataset make photographs --samples 2000 --out photos
    advisor dataset convert photos --to lmdb --out photos-lmdb
    advisor dataset show photos-lmdb
    advisor dataset check photos-lmdb
    """


@dataset.command()
@click.argument("kind", type=FieldType(Choice("kind of data set", ("photographs", "text")), "kind"))
@typed_option(
    _COUNT, "--samples", default=10_000, help="Number of photographs; a text has the Penn Treebank's length."
)
@_out_option
@output_option
def make(kind: str, samples: int, out: Path, output: str) -> None:
    """Make KIND: `photographs` (JPEG files like ImageNet's) or `text` (like the Penn Treebank)."""
    from advisor.sweeps.datasets.making import ensure_dataset, make_text
    from advisor.sweeps.datasets.opening import check_free, read_profile

    if kind == "text" or read_profile(out, samples) is None:  # an existing set is kept
        check_free(out)
    with dataset_progress() as progress:
        profile = make_text(out) if kind == "text" else ensure_dataset(samples, out, progress)[1]
    _answer(output, "advisor.dataset-made/1", out, profile)


@dataset.command()
@click.argument("source", type=click.Path(path_type=Path))
@typed_option(_FORMAT, "--to", "target", required=True, help="Format to write.")
@_out_option
@click.option(
    "--resize",
    type=click.IntRange(8, 10_000),
    metavar="PIXELS",
    help="Longest allowed shorter edge; not for lmdb.",
)
@typed_option(
    Number(whole=True, most=100), "--quality", help="JPEG quality of resized images.  [default: 95]"
)
@typed_option(_COUNT, "--processes", help="Decoding processes.  [default: one a CPU]")
@output_option
def convert(
    source: Path,
    target: str,
    out: Path,
    resize: int | None,
    quality: int | None,
    processes: int | None,
    output: str,
) -> None:
    """Convert the images of SOURCE, in any format, and report the rate.

    JPEG bytes are copied as they are unless --resize is given; an LMDB holds them decoded, 256 x 256, as
    Caffe stores ImageNet. Stopped or failed, it leaves nothing behind."""
    from advisor.sweeps.datasets.converting import convert as converted
    from advisor.sweeps.datasets.transforming import Change

    if quality is not None and resize is None:
        raise UsageError(
            "--quality goes with --resize",
            field="quality",
            hint="leave it out: without --resize images stay as they are",
        )
    if source.resolve() == out.resolve():
        raise UsageError("--out is the data set itself", field="out", hint="name a new folder")
    change, count = Change(shorter_edge=resize, quality=quality or 95), processes or _all_cpus()
    with dataset_progress("converting") as progress:
        done = converted(source, target, out, change=change, processes=count, progress=progress)
    facts = {
        "seconds": done.seconds,
        "processes": done.processes,
        "samples_per_second": done.samples_per_second,
    }
    _answer(output, "advisor.dataset-converted/1", out, done.profile, conversion=facts)
    if output == "table":
        many = "1 process" if done.processes == 1 else f"{done.processes} processes"
        rate = format_rate(done.samples_per_second)
        click.echo(f"converted in {done.seconds:.1f} s by {many}: {rate} samples/s")


@dataset.command()
@click.argument("path")
@output_option
def show(path: str, output: str) -> None:
    """Show format, samples, sizes and decoding cost of PATH, or of what lies at an address.

    s3://BUCKET/PREFIX, or any address of fsspec, is brought into this machine's cache first."""
    from advisor.runs.sweeps.data import data_here
    from advisor.sweeps.datasets.opening import TEXT, open_dataset, profile_folder, read_corpus, recognise
    from advisor.sweeps.datasets.transforming import decode_costs

    with dataset_progress("fetching", "files") as progress, data_here(path, progress) as (folder, cached):
        profile = profile_folder(folder)
        costs, words = dict[str, float](), None
        if recognise(folder) == TEXT:
            words = len(read_corpus(folder, vocabulary=profile.samples).words)
        else:  # decoder -> seconds that one thread takes for a sample
            costs = decode_costs(open_dataset(folder))
    facts = {
        "decode_seconds_per_sample": costs,
        "different_words": words,
        **({"cache": cached.facts} if cached else {}),
    }
    _answer(output, "advisor.dataset/1", folder, profile, **facts)
    if output == "table":
        if cached is not None:
            mib = format_mib(cached.bytes / 2**20)
            click.echo(f"fetched {cached.filled_at}: {mib} in {cached.fill_seconds:.1f} s")
        for decoder, seconds in costs.items():
            rate = format_rate(1 / seconds)
            click.echo(f"decoding ({decoder}): {seconds * 1e3:.3g} ms, {rate} samples/s a thread")
        if words is not None:
            click.echo(f"different words: {words:,}")


@dataset.command()
@click.argument("path", type=click.Path(path_type=Path))
@output_option
def check(path: Path, output: str) -> None:
    """Decode every image of PATH and name the broken ones (then exit code 1)."""
    from advisor.sweeps.datasets.converting import broken_samples

    with dataset_progress("checking") as progress:
        count, broken = broken_samples(path, _all_cpus(), progress)
    document = {"schema": "advisor.dataset-check/1", "path": str(path), "samples": count, "broken": broken}
    print_answer(output, document, lambda: [*broken, f"{count:,} images, {len(broken):,} of them broken"])
    if broken:
        raise DataError(f"{len(broken):,} of {count:,} images of '{path}' cannot be read")


def _all_cpus() -> int:
    from advisor.sweeps.machine.environment import machine_size

    return math.ceil(machine_size().vcpus)


def _answer(output: str, schema: str, path: Path, profile: DatasetProfile, **facts: Any) -> None:
    document = {"schema": schema, "path": str(path), "profile": asdict(profile), **facts}
    is_text = profile.storage_format == "text"
    kind = "tokens" if is_text else "images"
    size = f"{profile.bytes_per_sample:,.4g}" if is_text else f"{profile.bytes_per_sample:,.0f}"
    lines = [
        f"{path}: {profile.storage_format}, {profile.samples:,} {kind}, {format_mib(profile.total_mib)}",
        f"stored: {size} bytes a sample",
    ]
    if not is_text:
        decoded = 3 * profile.pixels
        lines.append(f"decoded: {profile.width} x {profile.height}, {decoded:,} bytes a sample")
    print_answer(output, document, lambda: lines)
