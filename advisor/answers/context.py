"""What all answers share: the catalogue, the predictor and notes on what they leave out, and the formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.anchoring import anchored_model
from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.catalog.prices import RATE_VARIABLE
from advisor.domain import DataKind, DatasetProfile
from advisor.domain.money import term_hours
from advisor.domain.results import CURRENCY, DECIDES, UNPRICED
from advisor.domain.workload import is_own_code, names_a_file
from advisor.engine.candidates import offers_in, place_query
from advisor.engine.no_offer import no_offer
from advisor.errors import CANNOT_RUN, NoOfferError, UsageError, UsageErrors
from advisor.files import own_model_path
from advisor.messages import FieldName, Message
from advisor.models.performance import load_model
from advisor.naming import covers_clouds
from advisor.questions.listings import Sources
from advisor.questions.network import NetworkQuestion
from advisor.questions.settled import settled_network
from advisor.questions.spec import SpecQuestion
from advisor.render.document import Sources as SourcesDocument
from advisor.render.document import document_yaml, plain, with_messages
from advisor.render.tables import flat_rows, recommendation_csv
from advisor.render.views.brief import brief_text
from advisor.render.views.compare import Misfit
from advisor.render.views.whole import EVERY, NEAREST, recommendation_markdown, whole_text

if TYPE_CHECKING:
    from advisor.models.performance import PerformanceModel
    from advisor.models.performance.networks import NetworkFacts

W = TypeVar("W", bound=NetworkQuestion)
P = TypeVar("P")


class Context(NamedTuple):
    """The catalogue and the model that answer questions; `notes` are warnings of every answer."""

    catalog: Catalog
    model: PerformanceModel
    notes: tuple[Message, ...] = ()

    def request(self, question: W) -> W:
        """The question with defaults and names resolved; `UsageError` names the wrong field, with a hint."""
        return settled_network(question, self.model.table, self.catalog, profile_of)

    def sources(self) -> SourcesDocument:
        """The identities of the model and the catalogue, for an answer's document."""
        return SourcesDocument(
            catalog=self.catalog,
            model_id=self.model.id,
            trained_on=self.model.trained_on,
            error_percent=self.model.error_percent,
        )


def load_context(sources: Sources | None = None) -> Context:
    """The user's catalogue, and the model that `sources` names, else the user's fit, else the bundled one."""
    sources = sources or Sources()
    catalog = load_catalog(cny_per_usd=sources.cny_per_usd)
    model = model_in_use(sources.performance_model)
    own = Message("predicted by your own fit {id}: {trained_on}", id=model.id, trained_on=model.trained_on)
    return Context(catalog, model, () if model.id == load_model().id else (own,))


def model_in_use(file: Path | None) -> PerformanceModel:
    """The model in `file`, else the user's fit where there is one, else the bundled model."""
    if file is not None and not file.is_file():
        raise UsageError(
            "no performance model '{file}'",
            file=file,
            field="performance_model",
            hint=Message("`advisor fit --out {file}` makes one", file=file),
        )
    own = own_model_path()
    return load_model(file or (own if own.is_file() else None))


def profile_of(path: Path, facts: NetworkFacts) -> DatasetProfile:
    """The profile of the user's data set at `path`, counted in the samples that the network takes."""
    from advisor.sweeps.datasets.opening import profile_folder, profile_text

    if facts.data is DataKind.TOKENS:
        return replace(profile_text(path), sample="token")
    return profile_folder(path)


def with_anchors(context: Context, question: W) -> tuple[Context, W]:
    """The context conditioned on the question's anchors, and the question with the network's new name."""
    name, table = question.network, context.model.table
    if not question.anchor and not is_own_code(name):
        return context, question
    own = name if names_a_file(name) else name.lower()
    question = question.replace(network=table.find(name).name if table.knows(name) else own)
    anchored = anchored_model(context.model, context.catalog, question)
    if anchored.fastest and question.precision is None:
        layout = question.memory_format or anchored.fastest.memory_format
        question = question.replace(precision=anchored.fastest.precision, memory_format=layout)
    return context._replace(model=anchored.model, notes=anchored.warnings), question


def omission_notes(
    request: SpecQuestion, catalog: Catalog, today: date, *, strict: bool
) -> tuple[Message, ...]:
    """Notes on what a question leaves out: clouds without known prices for commitments, currencies without
    a rate, and with `strict` types whose prices are all old."""
    query = place_query(request, accelerated=None)
    notes = [
        _missing_commitments_note(catalog, query),
        _old_prices_note(request, catalog, today) if strict else None,
    ]
    return (*(note for note in notes if note is not None), *unconverted_notes(catalog, query))


def region_notes(request: SpecQuestion, catalog: Catalog) -> tuple[Message, ...]:
    """The notes that all regions were searched, as neither the question nor its cloud fixes one; or, among
    all clouds, only those that have a region of the name."""
    region, field = request.region, FieldName("region")
    if region is None:
        return (Message("all regions searched, however far from you ({field} names one)", field=field),)
    clouds = [name for name in catalog.clouds if region in catalog.known_regions(name)]
    if not covers_clouds(request) or len(clouds) == len(catalog.clouds):
        return ()
    only = Message("only {clouds}: no other cloud names a region {region} ({field})")
    return (Message(only.text, code=DECIDES, clouds=clouds, region=region, field=field),)


def unconverted_notes(catalog: Catalog, query: OfferQuery) -> list[Message]:
    """A note for each currency without a known exchange rate, naming the clouds that use it."""
    return [
        Message(
            "prices in {currency} are left out ({clouds}): no exchange rate is set; {variable}=0.9 sets one",
            currency=currency,
            clouds=clouds,
            variable=RATE_VARIABLE.format(currency),
            code=CURRENCY,
        )
        for currency, clouds in catalog.unconverted(query).items()
    ]


def _missing_commitments_note(catalog: Catalog, query: OfferQuery) -> Message | None:
    """A note on clouds whose prices for commitments (reservations, savings plans) are unknown."""
    clouds = catalog.without_prices(query) if query.market and term_hours(query.market) else []
    if not clouds:
        return None
    return Message(
        "clouds left out, as their commitment prices are not known offline: {clouds}",
        code=UNPRICED,
        clouds=clouds,
    )


def _old_prices_note(request: SpecQuestion, catalog: Catalog, today: date) -> Message | None:
    known, fresh = (
        {
            (offer.instance.cloud, offer.instance.name)
            for offer in offers_in(catalog, place_query(variant, accelerated=None))
        }
        for variant in (request, replace(request, fresh_on=today))
    )
    count = len(known - fresh)
    if not count:
        return None
    return Message(
        "{field} leaves out {count:,} types: every price of theirs is older than its source keeps",
        field=FieldName("strict"),
        count=count,
    )


def results_and_misfits(
    catalog: Catalog,
    question: SpecQuestion,
    names: Iterable[str],
    predicted: Callable[[str], P],
    *,
    may_be_none: bool = False,
) -> tuple[dict[str, P], list[Misfit]]:
    """The result of each type that can run the work, and why the others cannot; `UsageErrors` if none can."""
    known, misfits, errors = dict[str, P](), list[Misfit](), list[UsageError]()
    for name in dict.fromkeys(names):
        try:
            known[name] = predicted(name)
        except UsageError as error:
            if error.code != CANNOT_RUN:
                raise
            errors.append(error)
            cloud = catalog.cloud_of(name, question.cloud)
            misfits.append(Misfit(catalog.instance(name, cloud), error.message))
    if not (known or may_be_none):
        raise UsageErrors(errors)
    return known, misfits


# Formats of a whole recommendation; those of `render.export` are files that start the recommended spec.
FORMATS = ("json", "yaml", "csv", "md")
_WRITERS = {"yaml": document_yaml, "csv": recommendation_csv, "md": recommendation_markdown}


class Answer(Struct, frozen=True, kw_only=True):
    """The engine's record of an answer, and the functions that write it on demand. `message_document` returns
    the JSON document with translatable messages for sentences. `text` of a recommendation takes the number of
    specs to show. `columns` of a comparison are the paths in the document's rows of its flat rows'
    columns."""

    result: Any
    message_document: Callable[[], dict[str, Any]]
    text: Callable[..., str]
    notes: Sequence[Message | str] = ()
    columns: Mapping[str, str] = {}

    def document(self) -> dict[str, Any]:
        """The JSON document, with unrounded numbers."""
        document: dict[str, Any] = plain(self.message_document())
        return document

    def rows(self) -> list[dict[str, Any]]:
        """The rows of a comparison, as flat records."""
        return flat_rows(self.document()["rows"], self.columns)


def recommendation_text(
    question: Any, document: Callable[[], dict[str, Any]], *, everything: bool = False
) -> Callable[[int | None], str]:
    """The function that writes a recommendation as text: in a dozen rows, or whole where the caller gives a
    number of specs, the question wants an explanation, or `everything` is set."""
    everything = everything or question.explain or question.explain_rejected
    room = EVERY if question.explain_rejected else NEAREST

    def text(specs: int | None = None) -> str:
        if not everything and specs is None:
            return brief_text(document())
        return whole_text(None, document(), room)

    return text


class Recommended(Answer, frozen=True, kw_only=True):
    """A recommendation; `start_file` writes a file that starts its spec."""

    start_file: Callable[[str], str]

    def no_offer(self) -> Message:
        """The reason why no spec is left, with the nearest one and what to relax."""
        return no_offer(self.result)

    def document(self) -> dict[str, Any]:
        """The JSON document, with unrounded numbers and the parameters of its sentences."""
        return with_messages(self.message_document())

    def written(self, name: str) -> str:
        """The answer in one of `FORMATS`, or the file of format `name` that starts the recommended spec."""
        if name == "json":
            return json.dumps(self.document(), indent=2, allow_nan=False) + "\n"
        if name in FORMATS:
            return _WRITERS[name](self.document())
        if self.result.chosen is None:
            raise NoOfferError(self.no_offer())
        return self.start_file(name)
