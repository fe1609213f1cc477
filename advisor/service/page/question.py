"""A page that answers a question: form, answer, errors, and suggested names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from advisor.answers.context import Context
from advisor.domain import Market, MemoryFormat, Precision, Stack, Task, Tf32
from advisor.domain.words import ANY_MARKET, KvPrecision, LanguageTask, LlmEngine, LlmMethod, LlmPrecision
from advisor.errors import AdvisorError, NoIntervalError, UsageError
from advisor.models.language.configs import bundled_language_models
from advisor.questions.fields import RATE
from advisor.questions.network import AUTO, Predict
from advisor.questions.question import Kinds, Question
from advisor.questions.reading import from_pairs
from advisor.questions.settled import DEFAULT_REGION
from advisor.questions.traffic import KNOWN_TRAFFIC
from advisor.questions.values import DATASETS
from advisor.render.i18n.catalogue import Texts
from advisor.service.answers import context_of, threads_of
from advisor.service.page.frame import ANSWER, Frame
from advisor.service.problems import Problem, problem_of

# A list is read, not scrolled through.
MOST = 12
_LONGEST_SEARCH = 100
ANY_CLOUD = "any"
_NO_WORD = re.compile(r"[\W_]+")


def matching(names: Iterable[str], search: str) -> list[str]:
    """The names that have every word of `search` in them, whatever stands between the words: those that begin
    with it first, then short ones. No word matches all."""
    words = _NO_WORD.sub(" ", search.casefold()).split()
    joined, ranked = "".join(words), []
    for name in names:
        plain = name.casefold()
        bare = _NO_WORD.sub("", plain.rpartition("/")[2])
        if joined in bare or all(word in plain for word in words):
            ranked.append((bare != joined, not bare.startswith(joined), len(name), name))
    return [name for *_, name in sorted(ranked)]


LISTS: Mapping[str, Callable[[Context, str], Iterable[str]]] = {
    "networks": lambda context, _cloud: context.model.table.names,
    "models": lambda context, _cloud: {*context.model.table.names, *bundled_language_models().names()},
    "instances": lambda context, cloud: context.catalog.type_names(cloud),
    "gpus": lambda context, _cloud: sorted(context.catalog.rented_gpus),
}

router = APIRouter(include_in_schema=False)


@router.get("/names/{kind}")
def names(request: Request, kind: str, search: str = "", cloud: str = "any") -> Response:
    """`{"names": [..], "count": all that match}`, at most `MOST` of them; 404 for other lists. Instance types
    are those of a cloud, if one is named that is known."""
    if kind not in LISTS:
        raise HTTPException(404, "no such list")
    context = context_of(request)
    home = cloud if cloud in context.catalog.clouds else ANY_CLOUD
    matches = matching(LISTS[kind](context, home), search[:_LONGEST_SEARCH])
    return JSONResponse(
        {"names": matches[:MOST], "count": len(matches)}, headers={"Cache-Control": "private, max-age=60"}
    )


Q = TypeVar("Q", bound=Question)


# The task of a language model that is like one of a network, and the other way around.
_LIKE: Mapping[str, str] = {
    Task.INFERENCE: LanguageTask.GENERATION,
    Task.PREPROCESSING: LanguageTask.GENERATION,
    Task.TRAINING: LanguageTask.FINETUNING,
    LanguageTask.GENERATION: Task.INFERENCE,
    LanguageTask.FINETUNING: Task.TRAINING,
}
# The fields that both have.
_SHARED = ("model", "instance", "cloud", "region", "market", "price_kind", "gpu", "max_price", "max_count")
# A run of fine-tuning that says nothing of its length.
_TOKENS = "1e8"


def with_task(context: Context, words: Mapping[str, str]) -> dict[str, str]:
    """The words with a task that fits their model: networks and language models are named in one field.
    A name of both is what the task says; a name of neither leaves the task as it is."""
    model, task = words.get("model", ""), words.get("task", "")
    says, known = task in set(LanguageTask), model in context.model.table.names
    is_language = _is_language_model(model) and (says or not known)
    if task not in _LIKE:
        task = LanguageTask.GENERATION if is_language else Task.INFERENCE
    elif says is not is_language and (known or is_language):
        task = _LIKE[task]
        words = {name: words[name] for name in _SHARED if name in words}
    words = {**words, "task": str(task)}
    return {"tokens": _TOKENS, **words} if task == LanguageTask.FINETUNING else words


def _is_language_model(name: str) -> bool:
    try:
        return bool(bundled_language_models().find(name))
    except UsageError:
        return False


def speaks(words: Mapping[str, str]) -> bool:
    """Whether the question is about a language model."""
    return words.get("task", "") in set(LanguageTask)


def question_of(kind: Kinds[Q], given: Mapping[str, str]) -> Q:
    """The question; `UsageError` for the first field that cannot be read. Of a field that takes several
    values an address may have them divided by commas."""
    fields = kind.fields
    return from_pairs(
        kind,
        [
            (name, part)
            for name, text in given.items()
            if name in fields
            for part in (text.split(",") if fields[name].kind.repeats else [text])
            if part.strip()
        ],
    )


# What a browser offers where no script finds names by what is typed.
EXAMPLES = (
    *("resnet50", "bert-base-uncased", "vit_base_patch16_224", "yolov8s", "stable-diffusion-xl"),
    *("whisper-large-v3", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B"),
)
# What most people rank by; the command line takes any of the kinds.
_PRICE_KINDS = ("", "list", "list,observed")
# The clouds that ship; what somebody imported comes after them.
CLOUDS = ("aws", "gcp", "azure", "alibaba")
# Where nothing is chosen, the usual holds.
_LEFT_OPEN: Mapping[str, Iterable[str]] = {
    "guidance": ("true", "false"),
    "dataset": DATASETS,
    "stack": Stack,
    "memory_format": MemoryFormat,
    "tf32": Tf32,
}
_LEFT_OPEN_OF_LANGUAGE: Mapping[str, Iterable[str]] = {
    "precision": LlmPrecision,
    "kv_precision": KvPrecision,
    "engine": LlmEngine,
    "traffic": KNOWN_TRAFFIC,
    "method": LlmMethod,
}


def choices_of(context: Context, words: Mapping[str, str], t: Texts) -> dict[str, Any]:
    """Values and labels of the fields, in the page's language; what is left open has an empty value."""
    catalog, cloud = context.catalog, words.get("cloud", "aws")
    markets = [(str(name), t(f"market.{name}")) for name in Market]
    clouds = sorted(catalog.clouds, key=lambda name: CLOUDS.index(name) if name in CLOUDS else len(CLOUDS))
    open_fields = {name: [("", t(f"usual.{name}")), *_named(values)] for name, values in _LEFT_OPEN.items()}
    if speaks(words):
        usual = ("", t("language.usual"))
        open_fields = {name: [usual, *_named(values)] for name, values in _LEFT_OPEN_OF_LANGUAGE.items()}
    return {
        "task": [(str(name), t(f"task.{name}")) for name in (LanguageTask if speaks(words) else Task)],
        "precision": _named((AUTO, *Precision)),
        **open_fields,
        "cloud": [*_named(clouds), ("any", t("cloud.any"))],
        "market": markets,
        "ranked_market": [*markets, (ANY_MARKET, t("market.any"))],
        "price_kind": [(kinds, t(f"price_kind.{kinds or 'all'}")) for kinds in _PRICE_KINDS],
        "region_hint": DEFAULT_REGION.get(cloud, t("region.all")),
        # Of one cloud; nobody reads the hundreds of all.
        "regions": sorted(catalog.regions(cloud)) if cloud in catalog.clouds else [],
        "gpus": sorted(catalog.rented_gpus),
        "models": EXAMPLES,
    }


def _named(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(name), str(name)) for name in names]


def trouble_view(error: AdvisorError | Problem, frame: Frame) -> tuple[dict[str, Any], int]:
    """Values of `answer.html` for an error, and the status that the page has."""
    t, refusal = frame.texts, error if isinstance(error, Problem) else problem_of(error)
    field, detail = refusal.field, refusal.detail
    known = f"field.{field}" in t.texts
    title = t("error.field", field=t(f"field.{field}")) if known else t("error.question")
    problem = {"title": title, "detail": detail, "ways": _ways(error, frame)}
    wrong = {field: [text for text in (detail, refusal.hint) if text]} if field else {}
    values = {"problem": problem, "wrong": wrong, "said": "", "pick": None, "sliders": []}
    return values | {"example": False, "speaks": False}, refusal.status


def answered(
    frame: Frame, view: Callable[..., dict[str, Any]], *arguments: Any
) -> tuple[dict[str, Any], int]:
    """What a view makes of its arguments, with 200; else the values and the status of its error."""
    try:
        return view(*arguments), 200
    except (AdvisorError, Problem) as error:
        return trouble_view(error, frame)


def _ways(error: AdvisorError | Problem, frame: Frame) -> list[dict[str, Any]]:
    """The near names as links that ask with them; or the extrapolation that was not allowed."""
    t, path, field = frame.texts, frame.request.url.path, error.field
    if isinstance(error, NoIntervalError):
        href = frame.same(path, allow_extrapolation="true")
        return [{"href": href, "text": t("error.extrapolate")}]
    suggestions = () if isinstance(error, Problem) else error.suggestions
    if field is None or not suggestions:
        return [{"href": "", "text": error.hint}] if error.hint else []
    return [{"href": frame.same(path, **{field: name}), "text": name} for name in suggestions]


def target_of(words: Mapping[str, str]) -> float | None:
    """The target that a rate is held to; None where none is words for, or it is no number."""
    text = words.get("target_throughput")
    try:
        return RATE.from_text(text, "target_throughput") if text else None
    except UsageError:
        return None


# The words of a question that say what runs, not where.
_OF_WORKLOAD = (
    *(name for name, field in Predict.fields.items() if field.section == "Workload"),
    "confidence",
    "target_throughput",
)


def words_of_spec(frame: Frame, spec: Mapping[str, object]) -> dict[str, object]:
    """The words of a question about one of its specs; preprocessing runs no network."""
    words = {**workload_fields(frame), **spec}
    if words.get("task") == Task.PREPROCESSING:
        del words["memory_format"]
    return words


def workload_fields(frame: Frame) -> dict[str, str]:
    """The words of a question that say what runs, not where, on which batches of samples."""
    words = dict(frame.words)
    return {name: words[name] for name in _OF_WORKLOAD if name in words and name != "batch_size"}


USUAL = {"market": "on-demand", "precision": AUTO}
# Fields that everybody sees; the others are in the disclosure.
ALWAYS_SHOWN = {
    "cloud",
    "task",
    "model",
    "instance",
    "baseline",
    "target_throughput",
    "region",
    "rejected",
    "users",
    "spec",
    "target_requests_per_s",
    "method",
    "tokens",
    "sequence",
}


# A page that takes longer is sent in parts, with a status that cannot tell of errors any more.
_AT_ONCE_SECONDS = 0.7


class QuestionPage(Struct, frozen=True):
    """A page whose address is a question: the templates of the whole page and of the answer alone, which the
    script asks for; what `view` makes of the question; what is answered where nobody has words yet (none of
    `needs` is given), since an answer says more than an empty page. The values of a `repeated` field are one
    list. One that is `whole` is computed before anything is sent: its form has what only its answer knows."""

    template: str
    part: str
    view: Callable[[Context, Mapping[str, str], Frame], dict[str, Any]]
    example: Mapping[str, str]
    needs: frozenset[str]
    repeated: tuple[str, ...] = ()
    whole: bool = False

    async def answer(self, request: Request) -> Response:
        """The page, or a part of it; what is wrong with the question stands where the answer would be. It is
        computed in a thread, as every answer. Of one that takes long the form and a skeleton of the answer
        are sent ahead, so that no window stays empty."""
        frame, context = Frame(request), context_of(request)
        words = self._words(context, frame)
        task = asyncio.create_task(threads_of(request).run(self._values, frame, context, words, slow=True))
        if not (frame.is_part or self.whole):
            await asyncio.wait((task,), timeout=_AT_ONCE_SECONDS)
            if not task.done():
                head, tail = await to_thread.run_sync(self._frame, frame, context, words)
                return frame.streamed(head, self._late(task, frame), tail)
        values, status = await task
        if frame.is_part:
            return await to_thread.run_sync(partial(frame.page, self.part, status=status, **values))
        form = self._form(frame, context, words, values.get("wrong", ()))
        return await to_thread.run_sync(partial(frame.page, self.template, status=status, **values | form))

    def _words(self, context: Context, frame: Frame) -> dict[str, str]:
        words = dict(frame.words)
        for repeated in self.repeated:
            values_of_repeated = [value for name, value in frame.words if name == repeated]
            if values_of_repeated:
                words[repeated] = ",".join(values_of_repeated)
        frame.is_example = not self.needs & words.keys() and not frame.is_part
        if not self.needs & words.keys():
            words = {**self.example, **words}
        words = with_task(context, words)
        frame.words = list(words.items())
        return words

    def _values(self, frame: Frame, context: Context, words: Mapping[str, str]) -> tuple[dict[str, Any], int]:
        values, status = answered(frame, self.view, context, words, frame)
        return values | {"example": frame.is_example, "speaks": speaks(words)}, status

    def _form(
        self, frame: Frame, context: Context, words: Mapping[str, str], wrong: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Values of the form. Its disclosure says how many fields it has filled in, and is open where one of
        them is wrong: on a phone an answer below it would be out of sight."""
        shown = {"cloud": "aws", **USUAL, **words}
        if speaks(words) and "precision" not in words:
            del shown["precision"]  # left open, as all fields of a language model
        hidden = {name for name in shown.keys() - ALWAYS_SHOWN if shown[name] != USUAL.get(name)}
        more = {"more_open": not hidden.isdisjoint(wrong), "more_set": len(hidden)}
        return {"words": shown, "choices": choices_of(context, shown, frame.texts), **more}

    def _frame(self, frame: Frame, context: Context, words: Mapping[str, str]) -> tuple[str, str]:
        """The page before and behind its answer."""
        values = {"speaks": speaks(words), "waits": True}
        text = frame.text(self.template, **self._form(frame, context, words), **values)
        head, _, tail = text.partition(ANSWER)
        return head, tail

    async def _late(self, task: asyncio.Task[tuple[dict[str, Any], int]], frame: Frame) -> str:
        """The answer's HTML, once it is there."""
        try:
            values, _ = await task
        except Problem as error:  # too many wait
            values, _ = trouble_view(error, frame)
        return await to_thread.run_sync(partial(frame.text, self.part, **values))
