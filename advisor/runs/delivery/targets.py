"""Sends messages to the targets of `--send`, with retries; defines the targets that are files or on S3.

Each target has a `label` for people, without secrets. `check` raises `UsageError` for errors that show before
the message is made. `send` sends once, and raises `TransientDeliveryError` if another attempt may succeed,
else `DeliveryError`."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from advisor.errors import DataError, DeliveryError, LiveError, UsageError
from advisor.files import write_whole
from advisor.infra.live.session import NO_CREDENTIALS, THROTTLED, as_live_errors, client
from advisor.runs.delivery.letter import Letter, TransientDeliveryError
from advisor.runs.delivery.mail import MailTarget, mail_target
from advisor.runs.delivery.webhook import WebhookTarget, webhook_target

KINDS = (
    "file:PATH, s3://BUCKET/KEY, https://.., smtp://HOST:PORT?to=ADDRESS, or env:NAME for a "
    "variable that holds one of these"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# Amazon S3 User Guide, "General purpose bucket naming rules".
_BUCKET = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?", re.DOTALL)
_MOST_KEY_BYTES = 1024
_DEFAULT_REGION = "us-east-1"


def parse_target(text: str) -> Target:
    """The target in a text, or in the variable that an `env:NAME` text names; `UsageError` shows the
    valid forms."""
    words, name = text.strip(), _variable(text)
    if name is not None:
        words = os.environ.get(name, "").strip()
        if not words:
            raise UsageError(f"--send env:{name}: the variable {name} is not set", field="send")
    return _target_of(words)


def checked_words(texts: Iterable[str]) -> tuple[str, ...]:
    """Target texts for another machine: only their form is checked, not variables and folders, which that
    machine must have."""
    words = tuple(text.strip() for text in texts)
    for word in words:
        if _variable(word) is None:
            _target_of(word)
    return words


def target_label(text: str) -> str:
    """A target's text without anything that may be secret."""
    if text.startswith("env:"):
        return text
    try:
        return _target_of(text).label
    except UsageError:
        return text.partition(":")[0] + ":.."


def _variable(text: str) -> str | None:
    """The variable's name in `env:NAME`; None for other texts."""
    kind, colon, name = text.strip().partition(":")
    if kind != "env" or not colon:
        return None
    if not _NAME.fullmatch(name):
        raise UsageError("--send env:NAME takes the name of an environment variable", field="send")
    return name


def _target_of(text: str) -> Target:
    kind, colon, _ = text.partition(":")
    maker = _MAKERS.get(kind.casefold())
    if not colon or maker is None:
        # The text may be a mistyped secret, so a long one is not shown in full.
        shown = text if len(text) <= 20 and "@" not in text else f"{text[:8]}.."
        raise UsageError(f"--send takes {KINDS}, not '{shown}'", field="send")
    try:
        return maker(text)
    except ValueError as error:
        raise UsageError(
            f"--send '{kind}:..' cannot be read ({error})", field="send", hint=f"it takes {KINDS}"
        ) from None


class FileTarget(Struct, frozen=True):
    """`file:PATH`, or `file:FOLDER/` for all files of a message; `{date}` becomes the report's day."""

    path: str

    @property
    def label(self) -> str:
        """The target as text."""
        return f"file:{self.path}"

    def check(self) -> None:
        """Raise `UsageError` unless the folder exists and is writable."""
        place = Path(self._place)
        folder = place if self._place.endswith("/") else place.parent
        if "{date}" in str(folder):
            return
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise UsageError(
                f"--send {self.label}: there is no folder '{folder}' that can be written", field="send"
            )

    def send(self, message: Letter) -> None:
        """Write the files, each completely or not at all."""
        try:
            for path, file in message.placed(self._place).items():
                write_whole(Path(path), file.content)
        except DataError as error:
            raise DeliveryError(error.message) from error

    @property
    def _place(self) -> str:
        is_folder = not self.path.endswith("/") and Path(self.path).is_dir()
        return f"{self.path}/" if is_folder else self.path


def file_target(text: str) -> FileTarget:
    """The target in 'file:PATH' or 'file:///PATH'."""
    path = text.partition(":")[2]
    if path.startswith("//") and not (path := path[2:]).startswith("/"):
        raise ValueError("file:// needs the whole path, as file:///srv/report.html")
    if not path or "\0" in path:
        raise ValueError("no path")
    return FileTarget(path)


class BucketTarget(Struct, frozen=True):
    """`s3://BUCKET/KEY`, or `s3://BUCKET/PREFIX/` for all files; `{date}` becomes the report's day.

    Credentials and region are those that boto3 finds; AWS_ENDPOINT_URL is honoured."""

    bucket: str
    key: str

    @property
    def label(self) -> str:
        """The target as text."""
        return f"s3://{self.bucket}/{self.key}"

    def check(self) -> None:
        """Raise `UsageError` without credentials; the bucket itself is not contacted."""
        import botocore.session

        if botocore.session.get_session().get_credentials() is None:
            raise UsageError(
                f"--send {self.label}: no AWS credentials",
                field="send",
                hint="run `aws configure`, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )

    def send(self, message: Letter) -> None:
        """Put the files; S3 guarantees that each object is complete or absent."""
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        try:
            s3 = client("s3", region or _DEFAULT_REGION, attempts=1)
            with as_live_errors("S3"):
                for key, file in message.placed(self.key).items():
                    s3.put_object(Bucket=self.bucket, Key=key, Body=file.content, ContentType=file.media_type)
        except LiveError as error:
            # Throttling, outages and lost connections are transient; refusals are not.
            answer = getattr(error.__cause__, "response", None)
            passes = error.code != NO_CREDENTIALS
            if answer is not None:
                status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                passes = status >= 500 or status == 429 or error.code == THROTTLED
            raise (TransientDeliveryError if passes else DeliveryError)(str(error)) from error


def bucket_target(text: str) -> BucketTarget:
    """The target in 's3://BUCKET/KEY'; the key may end with a slash, or be missing."""
    match = _BUCKET.fullmatch(text)
    if match is None:
        raise ValueError("s3://BUCKET/KEY needs a bucket's name")
    key = match[2] or ""
    if len(key.encode()) > _MOST_KEY_BYTES or not key.isprintable():
        raise ValueError(f"a key has up to {_MOST_KEY_BYTES} bytes, without control characters")
    return BucketTarget(match[1], key)


Target = FileTarget | BucketTarget | MailTarget | WebhookTarget
_MAKERS: Mapping[str, Callable[[str], Target]] = {
    "file": file_target,
    "s3": bucket_target,
    "https": webhook_target,
    "http": webhook_target,
    "smtp": mail_target,
    "smtps": mail_target,
}


ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 1.0

Say = Callable[[str], None]


class Delivery(Struct, frozen=True, kw_only=True):
    """The result of sending to one target, shown as `label`; `error` is empty if the message arrived."""

    label: str
    attempts: int
    error: str = ""

    @property
    def arrived(self) -> bool:
        """Return whether the target has accepted the message."""
        return not self.error


def checked_target(text: str) -> Target:
    """The target in a `--send` option; `UsageError` if it already cannot work."""
    target = parse_target(text)
    target.check()
    return target


def deliver(
    message: Letter,
    target: Target,
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] | None = None,
    say: Say = lambda _line: None,
) -> Delivery:
    """Send a message, up to `attempts` times with pauses of 1, 2, 4, .. s (each up to a quarter longer at
    random, so that many senders do not retry at once). A target's failure is in the result, never raised."""
    tries = Retrying(
        stop=stop_after_attempt(attempts),
        retry=retry_if_exception_type(TransientDeliveryError),
        wait=_pause,
        sleep=sleep or time.sleep,
        reraise=True,
        before_sleep=lambda state: say(f"{_error_of(state)}; trying again"),
    )
    error = ""
    try:
        tries(target.send, message)
    except (DeliveryError, UsageError) as failed:
        error = str(failed)
    return Delivery(label=target.label, attempts=tries.statistics["attempt_number"], error=error)


def deliver_to(
    message: Letter, text: str, *, say: Say = lambda _line: None, attempts: int = ATTEMPTS
) -> Delivery:
    """Send a message to a target stored as text, like `deliver`; an unusable text is a failed delivery."""
    try:
        return deliver(message, checked_target(text), say=say, attempts=attempts)
    except UsageError as error:
        return Delivery(label=target_label(text), attempts=0, error=str(error))


def _pause(state: RetryCallState) -> float:
    pause = FIRST_PAUSE_SECONDS * 2.0 ** (state.attempt_number - 1)
    error = _error_of(state)
    requested = error.wait_seconds if isinstance(error, TransientDeliveryError) else None
    return max(pause * random.uniform(1.0, 1.25), requested or 0.0)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
