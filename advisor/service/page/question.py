"""The pages that answer a question: their form, their answer, their errors, and suggested names."""

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

# The most names suggested at once, so that the list need not be scrolled.
MOST = 12
_LONGEST_SEARCH = 100
ANY_CLOUD = "any"
_NO_WORD = re.compile(r"[\W_]+")


def matching(names: Iterable[str], search: str) -> list[str]:
    """The names that contain every word of `search`; all names if `search` has no words. Exact matches come
    first, then names that begin with it, then shorter ones. Case and punctuation do not count."""
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
    """Names that match `search`, as `{"names": [at most MOST], "count": all matches}`. `kind` is a key of
    `LISTS`, else the answer is 404. Instance types are limited to `cloud` if that is known."""
    if kind not in LISTS:
        raise HTTPException(404, "no such list")
    context = context_of(request)
    home = cloud if cloud in context.catalog.clouds else ANY_CLOUD
    matches = matching(LISTS[kind](context, home), search[:_LONGEST_SEARCH])
    return JSONResponse(
        {"names": matches[:MOST], "count": len(matches)}, headers={"Cache-Control": "private, max-age=60"}
    )


Q = TypeVar("Q", bound=Question)


# The language model's task that corresponds to a network's task, and the other way around.
_LIKE: Mapping[str, str] = {
    Task.INFERENCE: LanguageTask.GENERATION,
    Task.PREPROCESSING: LanguageTask.GENERATION,
    Task.TRAINING: LanguageTask.FINETUNING,
    LanguageTask.GENERATION: Task.INFERENCE,
    LanguageTask.FINETUNING: Task.TRAINING,
}
# The fields that questions about networks and about language models have in common.
_SHARED = ("model", "instance", "cloud", "region", "market", "price_kind", "gpu", "max_price", "max_count")
# The tokens of a fine-tuning run if the question does not say.
_TOKENS = "1e8"


def with_task(context: Context, words: Mapping[str, str]) -> dict[str, str]:
    """The words with a task that fits the model, since one field names networks and language models. The task
    decides what a name means that is both. It is kept for a name that is neither."""
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
    """True if the question's task is one of language models."""
    return words.get("task", "") in set(LanguageTask)


def question_of(kind: Kinds[Q], given: Mapping[str, str]) -> Q:
    """The question with the fields in `given`; the values of a repeatable field may be separated by commas.
    Raises `UsageError` for the first field that cannot be read."""
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


# Model names that a browser suggests without a script.
EXAMPLES = (
    *("resnet50", "bert-base-uncased", "vit_base_patch16_224", "yolov8s", "stable-diffusion-xl"),
    *("whisper-large-v3", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B"),
)
# The usual combinations of price kinds; the command line takes any combination.
_PRICE_KINDS = ("", "list", "list,observed")
# The order of the clouds that come with the advisor; imported ones follow.
CLOUDS = ("aws", "gcp", "azure", "alibaba")
# Fields with a default, and the values that may be chosen instead.
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
    """The choices of each field: values with labels in the page's language; the value '' is the default."""
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
        # Only if one cloud is chosen; all clouds together have hundreds.
        "regions": sorted(catalog.regions(cloud)) if cloud in catalog.clouds else [],
        "gpus": sorted(catalog.rented_gpus),
        "models": EXAMPLES,
    }


def _named(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(name), str(name)) for name in names]


def trouble_view(error: AdvisorError | Problem, frame: Frame) -> tuple[dict[str, Any], int]:
    """The values of `answer.html` for an error, and the HTTP status of the page."""
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
    """The values that the view returns, and status 200; or the values and status of its error."""
    try:
        return view(*arguments), 200
    except (AdvisorError, Problem) as error:
        return trouble_view(error, frame)


def _ways(error: AdvisorError | Problem, frame: Frame) -> list[dict[str, Any]]:
    """Ways out of an error as links: a similar name, or allowing extrapolation. Else the hint, if any."""
    t, path, field = frame.texts, frame.request.url.path, error.field
    if isinstance(error, NoIntervalError):
        href = frame.same(path, allow_extrapolation="true")
        return [{"href": href, "text": t("error.extrapolate")}]
    suggestions = () if isinstance(error, Problem) else error.suggestions
    if field is None or not suggestions:
        return [{"href": "", "text": error.hint}] if error.hint else []
    return [{"href": frame.same(path, **{field: name}), "text": name} for name in suggestions]


def target_of(words: Mapping[str, str]) -> float | None:
    """The target throughput in the words; None if there is none, or none that can be read."""
    text = words.get("target_throughput")
    try:
        return RATE.from_text(text, "target_throughput") if text else None
    except UsageError:
        return None


# The fields of a question that say what runs, not where.
_OF_WORKLOAD = (
    *(name for name, field in Predict.fields.items() if field.section == "Workload"),
    "confidence",
    "target_throughput",
)


def words_of_spec(frame: Frame, spec: Mapping[str, object]) -> dict[str, object]:
    """The words of a question about one spec; without a memory format where no network runs."""
    words = {**workload_fields(frame), **spec}
    if words.get("task") == Task.PREPROCESSING:
        del words["memory_format"]
    return words


def workload_fields(frame: Frame) -> dict[str, str]:
    """The words of the page's question that say what runs, except the batch size and the place."""
    words = dict(frame.words)
    return {name: words[name] for name in _OF_WORKLOAD if name in words and name != "batch_size"}


USUAL = {"market": "on-demand", "precision": AUTO}
# Fields that are always visible; the others are in a section that can be unfolded.
ALWAYS_SHOWN = {
    *("cloud", "task", "model", "instance", "baseline", "target_throughput", "region", "rejected"),
    *("users", "spec", "target_requests_per_s", "method", "tokens", "sequence"),
}


# A page whose answer takes longer is sent in two parts, and always with status 200.
_AT_ONCE_SECONDS = 0.7


class QuestionPage(Struct, frozen=True):
    """A page whose URL is a question. `template` is the whole page, `part` the answer alone (for the script),
    and `view` returns the values of the answer. `example` is the question that is answered if the URL has
    none of the fields `needs`. Values of `repeated` fields are joined by commas. If `whole`, nothing is sent
    before the answer is computed, because the form needs values of the answer."""

    template: str
    part: str
    view: Callable[[Context, Mapping[str, str], Frame], dict[str, Any]]
    example: Mapping[str, str]
    needs: frozenset[str]
    repeated: tuple[str, ...] = ()
    whole: bool = False

    async def answer(self, request: Request) -> Response:
        """The page, or its answer alone. An error is shown in place of the answer. The answer is computed in
        a thread. If that takes long, the form and a placeholder are sent first, so that the window does not
        stay empty."""
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
        """The values of the form. `more_set` counts the fields filled in inside the unfoldable section, and
        `more_open` unfolds it if one of them is wrong. It is folded otherwise, to keep the answer in view."""
        shown = {"cloud": "aws", **USUAL, **words}
        if speaks(words) and "precision" not in words:
            del shown["precision"]  # no default is shown for language models
        hidden = {name for name in shown.keys() - ALWAYS_SHOWN if shown[name] != USUAL.get(name)}
        more = {"more_open": not hidden.isdisjoint(wrong), "more_set": len(hidden)}
        return {"words": shown, "choices": choices_of(context, shown, frame.texts), **more}

    def _frame(self, frame: Frame, context: Context, words: Mapping[str, str]) -> tuple[str, str]:
        """The HTML of the page before and after its answer."""
        form = self._form(frame, context, words)
        text = frame.text(self.template, **form, speaks=speaks(words), waits=True)
        head, _, tail = text.partition(ANSWER)
        return head, tail

    async def _late(self, task: asyncio.Task[tuple[dict[str, Any], int]], frame: Frame) -> str:
        """Wait for the answer and return its HTML, or that of an error."""
        try:
            values, _ = await task
        except Problem as error:  # too many requests wait
            values, _ = trouble_view(error, frame)
        return await to_thread.run_sync(partial(frame.text, self.part, **values))
