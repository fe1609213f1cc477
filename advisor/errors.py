"""The product's errors, and the exit code of the command line for each.

AdvisorError                exit 1: printed in one line, never as a traceback
|-- UsageError, UsageErrors exit 2: the request is wrong (the message says how to correct it)
|-- NoOfferError            exit 3: nothing meets the target (names the nearest, and what to relax)
|-- NoIntervalError         exit 4: no calibrated interval exists for the question
|-- StalePriceError         exit 5: every price that answers is too old for --strict
|-- DataError               exit 1: a bundle, model or database is missing, corrupt or too new
|-- MeasuringError          exit 1: this machine cannot make the measurement
|-- LiveError               exit 1: a cloud cannot be reached; everything offline still works
|-- DeliveryError           exit 1: a report was written but could not be delivered
|-- CloudError              exit 1: something could not be launched, or could not be ended
`-- Stopped                 exit 130 (Ctrl-C), 143 (SIGTERM) or 129 (SIGHUP): says what is kept"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from advisor.messages import Message, Spell, Translate, option_name, render

MOST_NAMES = 12
# An environment variable: the file to which a command writes its error as JSON, for its parent process.
ERROR_VARIABLE = "ADVISOR_ERROR_FILE"
# The code of a `UsageError` that only means that one machine cannot do this; others may.
CANNOT_RUN = "cannot_run"
# The code for a network whose forward pass fails on tensors without data.
CANNOT_FOLLOW = "cannot_follow"


class AdvisorError(Exception):
    """Anything that the product refuses or cannot do, with a message for the user.

    `hint` is what the user can do next, `field` the option or field that is wrong (such as
    `max_latency_ms`), and `code` identifies the error for programs. `parameters` fill in the text as in
    a `Message`: `UsageError("{model!r} has no input of {pixels}", model=.., pixels=..)`. Without
    parameters the text is used unchanged. `str(error)` is the message and its hint in English.
    `suggestions` are valid values of the field that are similar to the wrong one."""

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
    """The request is wrong: an unknown name, an impossible number, or options that do not fit together."""

    exit_code = 2


class UsageErrors(UsageError):
    """Several mistakes in one file or question; each of `errors` is printed on a separate line."""

    def __init__(self, errors: Sequence[UsageError]) -> None:
        first = errors[0]
        super().__init__(first.message, hint=first.hint, field=first.field, code=first.code)
        self.errors = errors


class Faults:
    """Collects usage errors, so that a user sees all mistakes at once."""

    def __init__(self) -> None:
        self.errors: list[UsageError] = []

    @contextmanager
    def collected(self, placed: Callable[[UsageError], UsageError] | None = None) -> Iterator[None]:
        """A context that collects usage errors instead of raising them; `placed` may add their location."""
        try:
            yield
        except UsageError as error:
            errors = list(error.errors) if isinstance(error, UsageErrors) else [error]
            errors = list(map(placed, errors)) if placed else errors
            known = [render(each.message, str) for each in self.errors]
            self.errors += [each for each in errors if render(each.message, str) not in known]

    def raise_any(self) -> None:
        """Raise the collected errors, if there are any."""
        if self.errors:
            raise UsageErrors(self.errors) if len(self.errors) > 1 else self.errors[0]


class NoOfferError(AdvisorError):
    """No offer meets the target; the message names the nearest one and what to relax."""

    exit_code = 3


class NoIntervalError(AdvisorError):
    """No calibrated interval exists for the question, and extrapolation was not allowed."""

    exit_code = 4


class StalePriceError(AdvisorError):
    """Every instance that answers the question has a price older than --strict allows."""

    exit_code = 5


class DataError(AdvisorError):
    """A file or table of the product cannot be read or written; the message names it."""


class MeasuringError(AdvisorError):
    """The machine lacks what a measurement needs; the message says what to install or change."""


class LiveError(AdvisorError):
    """A cloud cannot be reached or refuses; the message says what to do, or how to do without it."""


class CloudError(AdvisorError):
    """A launch was refused or may not have ended; the message says what to do and what may still run."""


class DeliveryError(AdvisorError):
    """A recipient did not accept what was sent; the message names the recipient, without secrets."""


class Stopped(AdvisorError):
    """The user or the system ended the work early; all its resources were released."""

    def __init__(self, message: Message | str, *, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived; handled like Ctrl-C, but with a different exit code."""


def one_line(text: str) -> str:
    """The text on one line, with unprintable characters replaced by '?'.

    Names and reasons from files may contain escape sequences that would control the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


# (kind, a name that people use) -> the product's names for the same thing.
_MEANT: Mapping[tuple[str, str], tuple[str, ...]] = {
    **dict.fromkeys((("task", name) for name in ("serving", "serve", "chat", "llm")), ("generation",)),
    **dict.fromkeys(
        (("task", name) for name in ("detection", "classification", "segmentation", "diffusion")),
        ("inference", "training"),
    ),
    ("export", "k8s"): ("kubernetes",),
    **dict.fromkeys((("command", name) for name in ("offers", "price", "prices")), ("catalog",)),
    ("command", "plan"): ("report", "sweep"),
    ("command", "run"): ("sweep", "schedule"),
    **dict.fromkeys((("cloud", name) for name in ("amazon", "ec2")), ("aws",)),
    **dict.fromkeys((("cloud", name) for name in ("google", "gce", "google cloud")), ("gcp",)),
    ("cloud", "microsoft"): ("azure",),
    ("cloud", "oracle"): ("oci",),
    ("cloud", "aliyun"): ("alibaba",),
    ("cloud", "datacrunch"): ("verda",),
    **dict.fromkeys(
        (("market", name) for name in ("reserved", "commitment", "committed", "ri")),
        ("commitment-1y", "commitment-3y"),
    ),
    ("market", "any"): ("on-demand", "spot"),
    **dict.fromkeys(
        (("precision", name) for name in ("awq", "int4", "q4_k_m", "gptq", "4bit")), ("int4-awq",)
    ),
}


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, listed_by: str = "", field: str | None = None
) -> UsageError:
    """A `UsageError` whose hint has similar names, else the command `listed_by`, else some known names."""
    import difflib  # imported here, since only misspelt names need it

    names = {known_name.casefold(): known_name for known_name in sorted(known)}
    close = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.6)
    close = close or [each for each in names if name[1:] and each.startswith(name.casefold())][:3]
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


# The service sets this; it returns False after its client has left or has waited too long.
STILL_WANTED: ContextVar[Callable[[], bool]] = ContextVar("still_wanted", default=lambda: True)


class SpentError(Exception):
    """The computation stops early: its time is spent, or its client no longer waits."""
