"""Settles a question: fills in open fields, from the network and the catalogue.

These are the data set, the cloud's region, the disk and the quotas. A contradiction is a `UsageError` with
its field. The settled question is a record of the same type, which the engine takes."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import structs

from advisor.catalog import Catalog
from advisor.catalog.disk_orders import LOCAL, unknown_disk
from advisor.catalog.prices import OfferQuery
from advisor.catalog.support import CLOUD, VcpuQuota, parse_quota
from advisor.domain import (
    DataKind,
    DatasetProfile,
    DiskChoice,
    Gpu,
    Market,
    MemoryFormat,
    Precision,
    Task,
    Tf32,
)
from advisor.domain.gpu_names import gpus_named
from advisor.domain.words import KvPrecision, LlmEngine
from advisor.domain.workload import is_own_code
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.models.performance.networks import NetworkFacts, NetworkTable
from advisor.questions.fields import comma_parts, error_in
from advisor.questions.language import (
    USUAL_PICTURE,
    LanguageQuestion,
    ServingQuestion,
    TuningQuestion,
    network_hint,
)
from advisor.questions.network import USUAL_STEPS, NetworkQuestion
from advisor.questions.spec import USUAL_CONFIDENCE, USUAL_COUNT, USUAL_RESULTS, SpecQuestion
from advisor.questions.traffic import USUAL_TRAFFIC, traffic_named
from advisor.questions.values import GpuFilter, ProfilePath, dataset_for, stored_as

if TYPE_CHECKING:
    from advisor.models.language.deployments import Draft
    from advisor.models.language.language_model import LanguageModel

DEFAULT_CLOUD = "aws"
DEFAULT_REGION = {DEFAULT_CLOUD: "us-east-1"}
# The word for an instance's local disk, whatever a cloud calls it.
OWN_DISK = "local"
_TOKENS = re.compile(r"(?:seq|tokens?)?[ :]*([0-9]{1,7})")
_SHAPE = re.compile(r"[0-9]{1,7}(?:x[0-9]{1,7})*")
_MOST_VALUES = 10**9
# Distilled networks: guidance is one of their inputs, and a step takes one pass.
_GUIDED_BY_INPUT = ("flux.1-dev",)

N = TypeVar("N", bound=NetworkQuestion)
S = TypeVar("S", bound=ServingQuestion)
T = TypeVar("T", bound=TuningQuestion)


class DiskData(NamedTuple):
    """The name and size of the data or weights that a disk has to hold."""

    name: str
    gib: float


def today() -> date:
    """The current date in UTC; ADVISOR_TODAY (as 2026-07-20) replays another day."""
    replayed = os.environ.get("ADVISOR_TODAY")
    if not replayed:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(replayed)
    except ValueError:
        raise UsageError(
            "ADVISOR_TODAY must be a date like 2026-07-20, not '{text}'", text=replayed
        ) from None


def settled_network(
    question: N, networks: NetworkTable, catalog: Catalog, profile: ProfilePath | None = None
) -> N:
    """The settled question about a network; `profile` reads a data set that is a path. `UsageError` names the
    field and a hint."""
    facts, sample_input = network_of(question, networks)
    dataset = dataset_for(question.dataset_name, facts, question.task, profile)
    if question.dataset_format:
        dataset = stored_as(dataset, question.dataset_format)
    if question.dataset_samples:
        if not dataset.is_read:
            raise error_in(
                "dataset_samples",
                "{field} is of data on a disk, and users send these samples",
                hint="leave it out, or name a {dataset}",
            )
        dataset = structs.replace(dataset, samples=question.dataset_samples)
    dataset = _denoised_data(question, facts, dataset)
    taken_as, namesake = networks.other_names(question.network)
    if question.task is Task.TRAINING and not facts.trains:
        raise error_in(
            "task", "{network} has no training step", network=facts.name, hint="ask for {task} inference"
        )
    if question.memory_format is MemoryFormat.CHANNELS_LAST and not facts.has_channels:
        raise error_in(
            "memory_format",
            "{field} is of images and feature maps, and {network} takes {input}",
            network=facts.name,
            input=facts.input,
            hint="leave it out",
        )
    spec = _settled_spec(question, catalog, disk_data_of(dataset))
    # TF32 is a mode of fp32 arithmetic: a question for it means fp32.
    rounds = question.precision is None and question.tf32 is not Tf32.CONVOLUTIONS
    precision = Precision.FP32 if rounds else question.precision
    splits = question.splits and question.task is not Task.TRAINING
    _check_epochs(question.epochs, dataset)
    return structs.replace(
        question,
        network=facts.name,
        dataset=dataset,
        input=sample_input,
        sample_input=facts.input,
        writes_text=facts.writes_text,
        model_asked=question.network if taken_as else None,
        namesake=namesake,
        precision=precision,
        max_count=question.most_instances or (USUAL_COUNT if splits else 1),
        **spec,
    )


def settled_serving(question: S, model: LanguageModel, catalog: Catalog) -> S:
    """The settled question about serving `model`."""
    from advisor.models.language.memory import weight_gib  # of language models alone

    tokens: dict[str, Any] = _picture_fields(question, model)
    traffic = traffic_named(question.traffic or USUAL_TRAFFIC)
    if question.input_tokens or question.output_tokens:
        tokens["input_tokens"] = question.input_tokens or traffic.input_tokens.mean
        tokens["output_tokens"] = question.output_tokens or traffic.output_tokens.mean
    else:
        longest = math.ceil(traffic.longest_tokens + tokens.get("picture_tokens", 0.0))
        longest = min(longest, model.max_context or longest)
        tokens |= {
            "input_tokens": traffic.input_tokens.mean,
            "output_tokens": traffic.output_tokens.mean,
            "context_tokens": question.context_tokens or longest,
            "traffic": None,
            "input_spread": traffic.input_tokens.log_deviation,
            "output_spread": traffic.output_tokens.log_deviation,
        }
    settled = structs.replace(question, model=model.name, config=None, **tokens)
    most_tokens, mean = question.context_tokens, math.ceil(settled.request_tokens)
    if most_tokens is not None and most_tokens < mean:
        raise error_in(
            "max_context",
            "{field} {asked:,} is below a mean request of {mean:,} tokens",
            asked=most_tokens,
            mean=mean,
            hint="ask for more, or for shorter requests",
        )
    data = DiskData(model.name, weight_gib(model, question.precision or model.own_precision))
    return structs.replace(
        settled, kv_precision=kv_precision_for(question, model), **_settled_spec(question, catalog, data)
    )


def _picture_fields(question: ServingQuestion, model: LanguageModel) -> dict[str, Any]:
    """The attributes for a question's pictures; `UsageError` for a model that reads none, or whose tokens per
    picture are not known."""
    if question.images_per_request is None:
        return {}
    if model.pictures is None:
        raise error_in(
            "images_per_request",
            "{model} reads no pictures",
            model=model.name,
            hint="leave {field} out, or name a model that reads them",
        )
    if not model.pictures.rule:
        raise error_in(
            "images_per_request",
            "how many tokens {model} makes of a picture is not known",
            model=model.name,
            hint="leave {field} out, and count its tokens in {input_tokens}",
        )
    width, height = map(int, (question.image_size or USUAL_PICTURE).split("x"))
    tokens = question.images_per_request * model.pictures.tokens(width, height)
    return {
        "image_size": question.image_size or USUAL_PICTURE,
        "picture_tokens": tokens,
        "tower_tokens": tokens * model.pictures.work / model.active_parameters,
    }


def settled_tuning(question: T, model: LanguageModel, catalog: Catalog) -> T:
    """The settled question about tuning `model`."""
    from advisor.models.language.memory import weight_gib  # of language models alone

    data = DiskData(model.name, weight_gib(model, model.own_precision))
    return structs.replace(question, model=model.name, config=None, **_settled_spec(question, catalog, data))


def language_model_of(question: LanguageQuestion) -> LanguageModel:
    """The model of a question, by name or by configuration; `UsageError` names the field."""
    from advisor.models.language.config_files import language_model_of_config

    if question.config is not None:
        return language_model_of_config(question.config)
    try:
        return _named_checkpoint(question.model)
    except UsageError as error:
        error.hint = network_hint(question.model, question.task) or error.hint
        raise


def _named_checkpoint(name: str) -> LanguageModel:
    """The bundled model that a name means, under the name of that checkpoint."""
    from advisor.models.language.configs import bundled_language_models, checkpoint_of

    model = bundled_language_models().find(name)
    return structs.replace(model, name=checkpoint_of(name, model.name))


def owner_notes(question: LanguageQuestion) -> Iterator[Message]:
    """Yield a warning if a model's owner is not listed, so that the listed model of its name is taken."""
    from advisor.models.language.configs import bundled_language_models

    models, owner = bundled_language_models(), question.model.strip().casefold().rpartition("/")[0]
    if owner and not any(name.casefold().startswith(f"{owner}/") for name in models.names()):
        known = models.find(question.model).name
        yield Message("{name} is not listed: taken as {network}", name=question.model, network=known)


def draft_of(question: ServingQuestion) -> Draft | None:
    """The speculative decoding in a question; `UsageError` for an unknown draft model."""
    from advisor.models.language.deployments import Draft

    if question.draft_acceptance is None:
        return None
    share, tokens = question.draft_acceptance.split(",")
    try:
        model = _named_checkpoint(question.draft_model) if question.draft_model else None
    except UsageError as error:
        error.field = "draft_model"
        raise
    return Draft(float(share), int(tokens), model)


def language_hint(name: str) -> Message | None:
    """The hint that a name belongs to language models, not to a network; None if it does not."""
    from advisor.models.language.configs import bundled_language_models

    try:
        bundled_language_models().find(name)
    except UsageError as error:
        part = name.rpartition("/")[2].casefold()
        names = [known for known in error.suggestions if part in known.casefold()]
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


def kv_precision_for(question: ServingQuestion, model: LanguageModel) -> KvPrecision | None:
    """The format of keys and values: the question's, else the checkpoint's default for engines that read it
    unchanged; None without either."""
    is_own = question.precision in (None, model.own_precision)
    reads = question.engine is not LlmEngine.LLAMA_CPP  # llama.cpp reads other files
    return question.kv_precision or (model.own_kv_precision if is_own and reads else None)


def traffic_notes(question: ServingQuestion, model: LanguageModel) -> Iterator[Message]:
    """Warnings about the requests of a trace or a file."""
    if not (question.input_tokens or question.output_tokens):
        traffic = traffic_named(question.traffic or USUAL_TRAFFIC)
        yield from traffic.notes(question.context_tokens or model.max_context)


def region_of(cloud: str, region: str | None) -> str | None:
    """The given region, or the cloud's usual one; None means every region."""
    return region or DEFAULT_REGION.get(cloud)


def instance_named(text: str, question: SpecQuestion, catalog: Catalog) -> str:
    """A type as the catalogue writes it. `UsageError` for a type of several clouds, or of another cloud than
    the given one or the given region's; the default cloud alone does not count as given."""
    catalog.require_cloud(question.cloud)
    if "," in text:
        raise error_in(
            "instance",
            "{field} is one type here, not {text}",
            text=text,
            hint="`advisor compare` takes several, of fine-tuning `advisor recommend --explain`",
        )
    name = catalog.name_of(text)
    home = catalog.cloud_of(name, question.cloud)
    if question.cloud in ("any", home):
        return name
    if question.cloud != DEFAULT_CLOUD or question.region is not None:
        field = "region" if question.cloud == DEFAULT_CLOUD else "cloud"
        raise error_in(
            field,
            "{name} is a type of {home}, not of {cloud}",
            name=name,
            home=home,
            cloud=question.cloud,
            hint=Message("give {cloud} {home}", cloud=FieldName("cloud"), home=home),
        )
    if gpus_named(text, catalog.gpu_sheets) and (alike := types_with(catalog, GpuFilter((text,)), 1)):
        raise error_in(
            "instance",
            "{name} is a type of {home} as well as a GPU",
            name=name,
            home=home,
            hint=Message(
                "give {cloud} any for that type, or {instance} {alike} for such a GPU on {usual}",
                cloud=FieldName("cloud"),
                instance=FieldName("instance"),
                alike=alike[0],
                usual=DEFAULT_CLOUD,
            ),
        )
    return name


def types_with(catalog: Catalog, gpus: GpuFilter, count: int) -> list[str]:
    """The cheapest types of the usual cloud with these GPUs, the first of each GPU before its next ones."""
    query = OfferQuery(
        cloud=DEFAULT_CLOUD,
        region=DEFAULT_REGION[DEFAULT_CLOUD],
        market=Market.ON_DEMAND,
        accelerated=True,
        **gpus.attributes(),
    )
    offers, _ = catalog.cheapest(query, 1000)
    seen, ranked = Counter[str](), list[tuple[int, str]]()
    for sold in (offer.instance for offer in offers if offer.instance.gpu_fraction == 1):
        seen[str(sold.gpu_name)] += 1
        ranked.append((seen[str(sold.gpu_name)], sold.name))
    return [name for _, name in sorted(ranked, key=itemgetter(0))[:count]]


def wanted_cards(catalog: Catalog, wanted: GpuFilter) -> list[Gpu]:
    """The cards that match `wanted`: named ones in the order given, else those for rent, smallest first."""
    names = sorted(catalog.rented_gpus, key=lambda name: (catalog.cards[name].memory_mib, name))
    if wanted.names:
        names = [card for name in wanted.names for card in catalog.cards_named(name)]
    meant = [name for name in dict.fromkeys(names) if wanted.allows(catalog.gpus[name])]
    if not meant:
        raise error_in("gpu", "no GPU matches {field}", hint="ask for less")
    return [catalog.cards[name] for name in meant]


def disk_data_of(dataset: DatasetProfile) -> DiskData:
    """The name and size of a data set."""
    return DiskData(dataset.name, dataset.total_mib / 1024)


def disk_fields(catalog: Catalog, cloud: str, text: str | None, data: DiskData) -> dict[str, Any]:
    """The attribute `disk` or `disk_types` of a question; {} if no disk is named."""
    if not text:
        return {}
    if "," in text or text.lower() == OWN_DISK:
        return {"disk_types": _disk_types(catalog, cloud, text)}
    return {"disk": _disk_choice(catalog, cloud, text, data)}


def _settled_spec(question: SpecQuestion, catalog: Catalog, data: DiskData) -> dict[str, Any]:
    catalog.require_cloud(question.cloud)
    return {
        "region": region_of(question.cloud, question.region),
        **disk_fields(catalog, question.cloud, question.disk_text, data),
        **(question.gpu_filter or GpuFilter()).attributes(),
        "vcpu_quota": _quota_of(question.quota, question.cloud, question.market),
        "max_results": question.max_shown or USUAL_RESULTS,
        "confidence": question.required_confidence or USUAL_CONFIDENCE,
    }


def _quota_of(text: str | None, cloud: str, market: Market | None) -> VcpuQuota:
    """The vCPUs that AWS quotas still allow; `UsageError` for another cloud or a bad text. For all markets a
    family means its on-demand and its spot quota."""
    if text is None:
        return ()
    if cloud not in (CLOUD, "any"):
        raise error_in("quota", "{field} knows the quotas of {aws}, not of {cloud}", aws=CLOUD, cloud=cloud)
    try:
        markets = (market,) if market else (Market.ON_DEMAND, Market.SPOT)
        return tuple(dict(pair for each in markets for pair in parse_quota(text, each)).items())
    except UsageError as error:
        error.field = "quota"
        raise


def _disk_types(catalog: Catalog, cloud: str, text: str) -> tuple[str, ...]:
    known = {name for home in _disk_clouds(catalog, cloud) for name in catalog.disks_of(home).types}
    names = [part.lower() for part in comma_parts(text)]
    for name in names:
        if ":" in name:
            raise error_in(
                "disk",
                "{field} {text}: among several types the advisor chooses the order",
                text=text,
                hint="name types alone (gp3,io2), or one disk",
            )
        if name not in known and name != OWN_DISK:
            raise unknown_disk(name, {*known, OWN_DISK})
    if not names:
        raise error_in("disk", "{field} takes a disk (gp3:500GiB) or types to choose among (gp3,io2)")
    return tuple(dict.fromkeys(LOCAL if name == OWN_DISK else name for name in names))


def _disk_choice(catalog: Catalog, cloud: str, text: str, data: DiskData) -> DiskChoice:
    name = text.partition(":")[0].strip().lower()
    clouds = _disk_clouds(catalog, cloud)
    homes = [home for home in clouds if name in catalog.disks_of(home).types] or [*clouds, "aws"]
    try:
        choice = catalog.disks_of(homes[0]).parse_choice(text)
    except UsageError as error:
        error.field = "disk"
        raise
    if choice.size_gib is not None and choice.size_gib < data.gib:
        raise error_in(
            "disk",
            "{field} {text} cannot hold {dataset}, which has {needed:.3g}GiB",
            text=text,
            dataset=data.name,
            needed=data.gib,
            hint="name a larger size, or none",
        )
    return choice


def _disk_clouds(catalog: Catalog, cloud: str) -> list[str]:
    """The clouds of the question whose disks are known."""
    return [name for name in catalog.disk_clouds if cloud in ("any", name)]


def _denoised_data(question: NetworkQuestion, facts: NetworkFacts, dataset: DatasetProfile) -> DatasetProfile:
    """The data set; if a diffusion network makes images, with the steps and guidance of each."""
    denoises = facts.library == "diffusers" and facts.sample == "step"
    if denoises and question.task is Task.INFERENCE:
        guidance = question.guidance
        return structs.replace(
            dataset,
            sample="image",
            steps=question.steps or USUAL_STEPS,
            guidance=facts.name not in _GUIDED_BY_INPUT if guidance is None else guidance,
        )
    for field in ("steps", "guidance"):
        if getattr(question, field) is not None:
            raise error_in(
                field,
                "{field} is of inference with diffusion networks, as sdxl; {network} in "
                "{task} makes no image in steps",
                network=facts.name,
                task=Message(str(question.task)),
                hint="leave it out",
            )
    return dataset


def network_of(question: NetworkQuestion, networks: NetworkTable) -> tuple[NetworkFacts, str | None]:
    """Facts of the network at the given input, and that input, None if it is the network's default.
    `UsageError` for an unknown network, or an input that it cannot take."""
    try:
        facts = networks.find(question.network)
    except UsageError as error:
        error.field = "model"
        if hint := language_hint(question.network):
            raise UsageError(hint, field="model", code=error.code) from None
        known = error.hint or "see `advisor networks`"
        own = Message(
            "for your own network use {model} file.py:build, or {anchor} FILE of `advisor measure`",
            anchor=FieldName("anchor"),
            model=FieldName("model"),
        )
        # A hint such as "did you mean googlenet?" already ends a sentence.
        error.hint = (
            Message("{known} Otherwise, {own}", known=known, own=own)
            if error.suggestions
            else Message("{known}; {own}", known=known, own=own)
        )
        raise
    sample_input = parse_input(question.input, facts) if question.input else None
    if sample_input in (None, facts.input):
        return facts, None
    if is_own_code(question.network):
        raise error_in(
            "input",
            "{network} says itself what it takes ({own})",
            network=question.network,
            own=facts.input,
            hint="leave out {field}",
        )
    return networks.find(question.network, sample_input), sample_input


def parse_input(text: str, facts: NetworkFacts) -> str:
    """The network's input for a size: '384' -> '3x384x384' or 'seq:384'; '3x384x384' stays as it is.
    `UsageError` for a size that the network cannot take."""
    wanted = text.strip().lower().removesuffix("px")
    if facts.data is DataKind.TOKENS:
        match = _TOKENS.fullmatch(wanted)
        if not match or not int(match.group(1)):
            raise error_in(
                "input",
                "{network} takes tokens: {field} seq:384, not '{text}'",
                network=facts.name,
                text=text,
            )
        return f"seq:{int(match.group(1))}"
    sizes = [int(size) for size in wanted.split("x")] if _SHAPE.fullmatch(wanted) else []
    if not sizes or min(sizes) < 1:
        raise error_in(
            "input",
            "'{text}' is no input of {network}",
            text=text,
            network=facts.name,
            hint=Message("write it like its own, {own}", own=facts.input),
        )
    own = facts.input_shape
    if facts.data is DataKind.IMAGE and len(sizes) < len(own):  # square, or height x width
        sizes = [own[0], *(2 * sizes if len(sizes) == 1 else sizes)]
    if len(sizes) != len(own) or (len(own) > 1 and sizes[0] != own[0]):
        raise error_in(
            "input",
            "{network} takes {own}, and '{text}' has another number of sizes, or of channels",
            network=facts.name,
            own=facts.input,
            text=text,
        )
    if math.prod(sizes) > _MOST_VALUES:
        raise error_in("input", "{field} {text} is more than a GPU can hold", text=text, hint="ask for less")
    return "x".join(map(str, sizes))


def _check_epochs(epochs: float | None, dataset: DatasetProfile) -> None:
    if epochs is None:
        return
    if not dataset.is_read:
        raise error_in(
            "epochs",
            "{field} goes through a data set, and requests are none",
            hint="say how many with {samples}, or name a {dataset}",
        )
    if not math.isfinite(epochs * dataset.samples):
        raise error_in(
            "epochs",
            "{field} {epochs:g} of {dataset} is more than can be counted",
            epochs=epochs,
            dataset=dataset.name,
        )
    if epochs * dataset.samples < 1:
        raise error_in(
            "epochs",
            "{field} {epochs:g} of {dataset} is less than one of its {samples:,} samples",
            epochs=epochs,
            dataset=dataset.name,
            samples=dataset.samples,
            hint="run at least one",
        )
