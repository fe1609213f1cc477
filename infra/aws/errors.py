"""The errors of EC2 that a launch may meet: each has one kind and one reaction.

The codes are in `launch_errors.csv` (origin in SOURCES.md). What nobody knows stops the launch: trying on
could cost money."""

from __future__ import annotations

import csv
from enum import StrEnum
from functools import cache
from importlib.resources import files

from advisor.errors import CloudError


class AwsFailure(StrEnum):
    """The kinds of failure."""

    CAPACITY = "capacity"
    RESERVATION = "reservation"
    PRICE = "price"
    QUOTA = "quota"
    OFFERING = "offering"
    NETWORK = "network"
    TOKEN = "token"
    OK = "ok"
    PERMISSION = "permission"
    ACCOUNT = "account"
    CREDENTIALS = "credentials"
    THROTTLE = "throttle"
    SERVER = "server"
    SPOT_TAKEN_BACK = "spot_taken_back"
    OWN_END = "own_end"
    VOLUME_QUOTA = "volume_quota"
    KEY = "key"
    UNKNOWN = "unknown"


class Reaction(StrEnum):
    """The reactions to a failure.

    `next_offer`: this type, zone and market is left alone for three minutes. `next_zone`: this zone is left
    alone for this type, in all markets. `next_market`: this type is not asked for in this market of the
    region any more. `next_quota`: neither is anything that counts against the same quota. `ask_again`: the
    same request, later. `find`: the token's instance exists. `launch_again`: with a new token. `stop`:
    nothing more is tried."""

    NEXT_OFFER = "next_offer"
    NEXT_ZONE = "next_zone"
    NEXT_MARKET = "next_market"
    NEXT_QUOTA = "next_quota"
    ASK_AGAIN = "ask_again"
    FIND = "find"
    GO_ON = "go_on"
    LAUNCH_AGAIN = "launch_again"
    DONE = "done"
    STOP = "stop"


class Refused(CloudError):
    """AWS said no; `code` is its word for why. `was_open`: an earlier try of the same question got
    no answer, or a server's error, and may have been done."""

    was_open = False

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(
            "AWS refused {operation}: {reason}: {message}",
            operation=operation,
            reason=code,
            message=message,
            code=code,
        )
        self.operation = operation
        self.code = code
        self.answer = message

    @property
    def kind(self) -> AwsFailure:
        """The kind of failure."""
        return kind_of(self.code)

    @property
    def reaction(self) -> Reaction:
        """The reaction to it."""
        return reaction_to(self.code)


class Unanswered(CloudError):
    """No answer came, however often it was asked: what changes things may have been done or not."""

    def __init__(self, operation: str, why: str) -> None:
        looks = operation.startswith(("describe_", "get_", "list_", "simulate_"))
        super().__init__(
            "AWS did not answer {operation} ({why})",
            operation=operation,
            why=why,
            hint="is the network there, or a proxy in between?" if looks else "it may have been done or not",
        )
        self.operation = operation


def kind_of(code: str) -> AwsFailure:
    """The kind of an error or state reason code."""
    return _meaning(code)[0]


def reaction_to(code: str) -> Reaction:
    """The reaction to an error or state reason code."""
    return _meaning(code)[1]


@cache
def error_codes(*, elsewhere: bool = False) -> dict[str, tuple[AwsFailure, Reaction]]:
    """The codes of the table that a launch is told; or those that are met on the way to it."""
    text = (files("advisor.infra.aws") / "launch_errors.csv").read_text(encoding="utf-8")
    return {
        row["error_code"]: (AwsFailure(row["kind"]), Reaction(row["reaction"]))
        for row in csv.DictReader(text.splitlines())
        if (row["from"] == "elsewhere") is elsewhere
    }


def _meaning(code: str) -> tuple[AwsFailure, Reaction]:
    """EC2 writes state reasons with `Server.` or `Client.` before codes that it has bare, too."""
    existing = error_codes() | error_codes(elsewhere=True)
    bare = code.partition(".")[2] if code.startswith(("Server.", "Client.")) else code
    for entry in (code, bare):
        if kinds := existing.get(entry):
            return kinds
    return AwsFailure.UNKNOWN, Reaction.STOP
