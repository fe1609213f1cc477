"""One error tree; what the caller does with each is said here.

AdvisorError                exit 1: told in one line, never as a traceback
|-- UsageError, UsageErrors exit 2: cannot be asked like this (the message names the way out)
|-- NoOfferError            exit 3: nothing meets the target (tells the nearest, what to relax)
|-- NoIntervalError         exit 4: no calibrated interval exists for what is asked
|-- StalePriceError         exit 5: only prices answer that are too old for --strict
|-- DataError               exit 1: a bundle, model or database is missing, corrupt or too new
|-- MeasuringError          exit 1: this machine cannot measure what is asked
|-- LiveError               exit 1: a cloud could not be asked; everything offline still works
|-- DeliveryError           exit 1: a report was made, and did not arrive where it was sent
|-- CloudError              exit 1: nothing could be launched, or something could not be ended
`-- Stopped                 exit 130 (Ctrl-C), 143 (SIGTERM) or 129 (SIGHUP): what is kept
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from advisor.messages import Message, Spell, Translate, option_name, render

MOST_NAMES = 12
# A process that started a command of ours names a file here: the command's error, as JSON.
ERROR_VARIABLE = "ADVISOR_ERROR_FILE"
# The code of a `UsageError` that says no more than that one machine cannot do what is asked.
CANNOT_RUN = "cannot_run"
# Of one about a network whose forward pass fails where nothing is computed.
CANNOT_FOLLOW = "cannot_follow"


class AdvisorError(Exception):
    """Anything the product itself refuses or cannot do; the message is for the user.

    `hint` is what the user can do next, `field` the option or field that is wrong (as
    `max_latency_ms`), `code` what programs tell it by. `parameters` fill in the text, as those of
    a `Message` do: `UsageError("{model!r} has no input of {pixels}", model=.., pixels=..)`. Without
    parameters the text is taken as it is. `str(error)` is the message and its hint in English.
    `suggestions` are values that the field could have had.
    """

    exit_code = 1
    suggestions: tuple[str, ...] = ()
    # How `str(error)` names fields: as options, or as the arguments of a Python call.
    spell: Spell = staticmethod(option_name)

    def __init__(
        self,
        text: Message | str,
        /,
        *,
        hint: Message | str | None = None,
        field: str | None = None,
        code: str = "",
        **parameters: object,
    ) -> None:
        message = text
        if parameters:
            message = Message(str(text), code=code, **parameters)
        super().__init__(message)
        self.message: Message | str = message
        self.hint = hint
        self.field = field
        self.code = code

    def __str__(self) -> str:
        return self.render(str, self.spell)

    def render(self, translate: Translate, spell: Spell = option_name) -> str:
        """The message and its hint in the language of `translate`, one line; `spell` names fields."""
        text = render(self.message, translate, spell)
        return text if self.hint is None else f"{text}; {render(self.hint, translate, spell)}"


class UsageError(AdvisorError):
    """The request is wrong: an unknown name, an impossible number, a senseless mix."""

    exit_code = 2


class UsageErrors(UsageError):
    """Several mistakes of one file or question: `errors`, each told in a line of its own."""

    def __init__(self, errors: Sequence[UsageError]) -> None:
        first = errors[0]
        super().__init__(first.message, hint=first.hint, field=first.field, code=first.code)
        self.errors = errors


class Faults:
    """Collects usage errors, so that whoever made several mistakes reads of all at once."""

    def __init__(self) -> None:
        self.errors: list[UsageError] = []

    @contextmanager
    def collected(self, placed: Callable[[UsageError], UsageError] | None = None) -> Iterator[None]:
        """Keeps the usage errors of the block, each once and with its place, and goes on behind it."""
        try:
            yield
        except UsageError as error:
            errors = list(error.errors) if isinstance(error, UsageErrors) else [error]
            errors = list(map(placed, errors)) if placed else errors
            told = [render(each.message, str) for each in self.errors]
            self.errors += [each for each in errors if render(each.message, str) not in told]

    def tell(self) -> None:
        """Raises what was collected, if anything was."""
        if self.errors:
            raise UsageErrors(self.errors) if len(self.errors) > 1 else self.errors[0]


class NoOfferError(AdvisorError):
    """No offer meets the target; the message tells the nearest and what to relax."""

    exit_code = 3


class NoIntervalError(AdvisorError):
    """No calibrated interval exists for what is asked, and extrapolation was not allowed."""

    exit_code = 4


class StalePriceError(AdvisorError):
    """Only instances answer whose price is older than --strict allows."""

    exit_code = 5


class DataError(AdvisorError):
    """A file or table of the product's own cannot be read; the message names it."""


class MeasuringError(AdvisorError):
    """The machine lacks what a measurement needs; the message says what to install or change."""


class LiveError(AdvisorError):
    """A cloud cannot be reached, or refuses; the message says what to do, or to ask without it."""


class CloudError(AdvisorError):
    """A refused launch, or one that may not have ended; says what mends it and what is left."""


class DeliveryError(AdvisorError):
    """A target did not take what was sent; the message names it, without anything secret."""


class Stopped(AdvisorError):
    """A user or the system ended it before its end; everything taken was given back."""

    def __init__(self, message: Message | str, *, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: takes the same way out as Ctrl-C, with an exit code of its own."""


def one_line(text: str) -> str:
    """The words of a message in one line, with nothing in it that steers a terminal.

    Names and reasons out of somebody's file may hold escape sequences.
    """
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)


@contextmanager
def system_errors(
    kind: type[AdvisorError], what: str, *, hint: str | None = None, field: str | None = None
) -> Iterator[None]:
    """An `OSError` of the block as an error of ours: what could not be done, and the system's reason."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what} ({error.strerror or error})", hint=hint, field=field) from error


# Names of (kind, name) that people use for what has other names here.
_MEANT: Mapping[tuple[str, str], tuple[str, ...]] = {
    **dict.fromkeys((("task", name) for name in ("serving", "serve", "chat", "llm")), ("generation",)),
    **dict.fromkeys(
        (("task", name) for name in ("detection", "classification", "segmentation", "diffusion")),
        ("inference", "training"),
    ),
    ("export", "k8s"): ("kubernetes",),
    **dict.fromkeys((("precision", name) for name in ("q4_k_m", "gptq", "4bit")), ("int4-awq",)),
}


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, listed_by: str = "", field: str | None = None
) -> UsageError:
    """A `UsageError` whose hint has near names, else the command that lists them, else some names."""
    import difflib  # only the mistyped wait for it

    names = {known_name.casefold(): known_name for known_name in sorted(known)}
    close = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.6)
    near = [meant for meant in _MEANT.get((kind, name.casefold()), ()) if meant in names]
    near = near or [names[known_name] for known_name in close]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    some = ", ".join(list(names.values())[:MOST_NAMES]) + more
    others = (
        Message("`{command}` lists those that are known", command=listed_by)
        if listed_by
        else Message("known: {names}", names=some)
    )
    hint = Message("did you mean {names}?", names=" or ".join(near)) if near else others
    error = UsageError(
        "unknown {kind} '{name}'", kind=kind, name=name, hint=hint, field=field, code="unknown_name"
    )
    error.suggestions = tuple(near)
    return error
