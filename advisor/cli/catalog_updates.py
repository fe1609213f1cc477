"""`advisor catalog import` and `refresh`: offers from a user's files, and current prices of clouds."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from advisor.answers.live.refreshing import PriceQuestion
from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.believed import TOO_FAR
from advisor.catalog.catalog import DEFAULT_CLOUD
from advisor.catalog.importing import Imported, import_file, imports_in
from advisor.catalog.overlay import (
    LIVE_CLOUDS,
    USUAL_REGIONS,
    cloud_title,
    forget_overlay,
    overlay_clouds,
    own_imports,
    read_overlay,
    remove_import,
)
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import DAY, FieldType, output_option, question_options
from advisor.domain import Market
from advisor.errors import LiveError, UsageError
from advisor.infra.live.lists import Access, price_list
from advisor.infra.live.session import NO_CREDENTIALS
from advisor.questions.fields import Choice, Flag, Kind, Text, Texts
from advisor.questions.listings import HardwareFilter
from advisor.questions.question import ask
from advisor.questions.settled import DEFAULT_REGION, today
from advisor.questions.values import GpuFilter
from advisor.records import asdict
from advisor.render.refreshing import kept_document, kept_text, refresh_document, refresh_text
from advisor.render.text import table

MARKETS = {"any": (Market.ON_DEMAND, Market.SPOT), "on-demand": (Market.ON_DEMAND,), "spot": (Market.SPOT,)}


@click.command("import")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--name", type=FieldType(Kind(), "name"), help="Name of the import.  [default: the file's]")
@click.option("--as-of", type=DAY, help="Date of a file that tells none.")
@click.option("--accept-implausible", is_flag=True, help="Accept prices far from the known ones.")
@click.option("--list", "listing", is_flag=True, help="List the imports.")
@click.option("--remove", "removed", metavar="NAME", help="Remove an import.")
@output_option
def import_offers(
    file: Path | None,
    name: str | None,
    as_of: date | None,
    accept_implausible: bool,
    listing: bool,
    removed: str | None,
    output: str,
) -> None:
    """Add your own machines, other clouds, and fresher prices from a file.

    A CSV with the columns in docs/reference/catalog.md; SkyPilot's vms.csv; the JSON of a tracker
    of GPU rental prices, or of ec2instances.info. Prices of types that are known replace those
    of the snapshot; those more than 3 times off, and lines of other GPUs than the type has, are
    left out and counted. A file of your own is taken as a whole or not at all.

    \b
    advisor catalog import docs/examples/free_services.csv
    advisor catalog import latest.json
    advisor catalog import vms.csv --name lambda --as-of 2026-11-20"""
    if sum((file is not None, listing, removed is not None)) != 1:
        raise UsageError(
            "an import takes one file, --list or --remove", hint="name one of them", field="file"
        )
    folder = own_imports()
    if removed is not None:
        remove_import(folder, removed)
        tell(f"removed {removed}")
        return
    if file is None:
        imports = imports_in(folder)
    else:
        imports = [import_file(file, name, folder, as_of=as_of, accept_implausible=accept_implausible)]
    _tell_imports(imports, output, added=file is not None)


def _tell_imports(imports: list[Imported], output: str, *, added: bool) -> None:
    entries = [
        {**asdict(entry), "left_out": entry.left_out.total(), "left_out_by_reason": entry.left_out}
        for entry in imports
    ]
    document = {"schema": "advisor.catalog-imports/1", "imports": entries}
    print_answer(output, document, lambda: _import_lines(imports, added=added), indent=2)


def _import_lines(imports: list[Imported], *, added: bool) -> list[str]:
    if not imports:
        return ["no types were imported; `advisor catalog refresh --show` has imported prices"]
    rows = [
        [entry.name, cloud, f"{count}{what}"]
        for entry in imports
        for what, counts in (
            ("", entry.offers),
            (" (disk prices)", entry.disk_prices),
            (" (facts)", entry.facts),
            (" (refreshed prices)", entry.refreshed),
        )
        for cloud, count in counts.items()
    ]
    lines = table(["import", "cloud", "offers"], rows, right=(2,))
    for entry in imports:
        for why, count in entry.left_out.items():
            example = f", such as {entry.examples[why]}" if why in entry.examples else ""
            example += "; --accept-implausible takes it" if why == TOO_FAR else ""
            lines.append(f"{entry.name}: {count:,} left out: {why}{example}")
        lines += [f"{entry.name}: {n:,} read: {what}" for what, n in entry.read_otherwise.items()]
    if added:
        (entry,) = imports
        clouds = dict.fromkeys((*entry.offers, *entry.disk_prices, *entry.facts, *entry.refreshed))
        lines.append(f"Ask with {', '.join(f'--cloud {cloud}' for cloud in clouds)} or any.")
    return lines


class Refreshing(HardwareFilter):
    """The question of `advisor catalog refresh`."""

    asks = ("cloud", "region", "names", *HardwareFilter.asks)
    cloud: str | None = ask(
        f"Cloud whose prices are fetched: {', '.join(LIVE_CLOUDS)}.", Kind(), DEFAULT_CLOUD
    )
    region: str | None = ask("Region.", Kind(), "us-east-1 of aws")
    names: tuple[str, ...] = ask(
        "Only this type. Repeatable.", Texts("TYPE"), "all accelerated types", name="instance", default=()
    )
    market: str = ask("Which prices to fetch.", Choice("market", MARKETS), default="any")
    accept_implausible: bool = ask(
        "Accept prices far from the known ones, and types that vanished in bulk.", Flag(), default=False
    )
    url: str | None = ask(
        "Address of the public price list, or of a proxy for it.", Kind(), "the cloud's own"
    )
    key_variable: str | None = ask(
        "Environment variable with the API key for gcp.", Text("NAME"), "ADVISOR_GCP_KEY"
    )
    tracker: str | None = ask("Fetch the JSON of a tracker of GPU prices there, and import it.", Text("URL"))
    show: bool = ask("Show what was refreshed; contact nobody.", Flag(), default=False)
    forget: bool = ask(
        "Return to the bundled snapshot, for --cloud or for all clouds.", Flag(), default=False
    )

    def __post_init__(self) -> None:
        if sum((self.show, self.forget, self.tracker is not None)) > 1:
            hint = "leave all but one of them out"
            raise UsageError("--show, --forget and --tracker exclude each other", field="show", hint=hint)


@click.command("refresh")
@question_options(Refreshing)
@output_option
def refresh(question: Refreshing, output: str) -> None:
    """Fetch current prices from a cloud; later commands use them.

    aws takes credentials that may read prices and types; without them it reads the public list of
    the region, some 300 MB, and estimates spot prices by the public spot advisor. gcp needs an API
    key, azure nothing. Ctrl-C changes nothing.

    \b
    advisor catalog refresh --gpu T4,L4,A10G
    advisor catalog refresh --cloud azure --region westeurope
    advisor catalog refresh --cloud gcp --region us-central1 --market spot
    advisor catalog refresh --tracker https://prices.example.org/latest.json"""
    from advisor.answers.live.refreshing import imported_from

    if question.tracker is not None:
        implausible = question.accept_implausible
        imported = imported_from(
            question.tracker, own_imports(), today(), tell, accept_implausible=implausible
        )
        _tell_imports([imported], output, added=True)
        return
    clouds = [question.cloud] if question.cloud else overlay_clouds(own_imports())
    if question.forget:
        done = [cloud for cloud in clouds if forget_overlay(own_imports(), cloud)]
        tell("back to the snapshot" if done else "nothing had been refreshed")
    elif question.show:
        kept = {cloud: read_overlay(own_imports(), cloud) for cloud in clouds}
        print_answer(output, kept_document(kept), lambda: kept_text(kept), indent=2)
    else:
        _refresh(question, question.cloud or DEFAULT_CLOUD, output)


def _usual_region(cloud: str) -> str:
    if region := DEFAULT_REGION.get(cloud):
        return region
    raise UsageError(f"{cloud} needs a region", field="region", hint=f"such as {USUAL_REGIONS[cloud]}")


def _refresh(question: Refreshing, cloud: str, output: str) -> None:
    from advisor.answers.live.refreshing import refresh, types_to_ask

    known = load_catalog()
    access = Access(url=question.url, key_variable=question.key_variable, whole=True)
    prices = price_list(cloud, known, access, tell)
    wanted = MARKETS[question.market]
    markets = tuple(market for market in wanted if market in prices.sources)
    if not markets:
        hint = "run `aws configure`, ask for --market on-demand, or set ADVISOR_AWS_SPOT_URL"
        text = f"{cloud_title(cloud)} tells {question.market} prices to those with credentials alone"
        raise LiveError(text, code=NO_CREDENTIALS, hint=hint)
    if len(markets) < len(wanted):
        tell(f"no AWS credentials: its public list has {', '.join(markets)} prices alone")
    region = question.region or _usual_region(cloud)
    query = OfferQuery(
        cloud=cloud,
        instances=question.names,
        accelerated=None if question.names else True,
        vcpus=question.vcpus,
        memory_mib=question.memory_mib,
        **(question.gpu or GpuFilter()).attributes(),
    )
    price_question = PriceQuestion(
        prices=prices,
        # Types of the bundled snapshot, so that those an earlier refresh removed are fetched again.
        names=types_to_ask(known.shipped, region, query),
        region=region,
        known=known,
        today=today(),
        accept_implausible=question.accept_implausible,
    )
    refreshed = refresh(price_question, markets, own_imports(), tell)
    print_answer(output, refresh_document(refreshed), lambda: refresh_text(refreshed), indent=2)
    if refreshed.answers and not any(answer.price for answer in refreshed.answers):
        raise LiveError(
            f"{cloud_title(cloud)} gave none of the {len(refreshed.answers)} prices asked for that "
            "could be taken",
            hint="the known ones stay",
        )
