"""The ways in which a request can fail, each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from advisor.errors import MeasuringError
from advisor.messages import FieldName, Message
from advisor.sweeps.endpoint.address import KEY_VARIABLE


class Fault(StrEnum):
    """The code of a request that brought no whole answer."""

    REFUSED = "refused"
    TLS = "tls"
    UNAUTHORISED = "unauthorised"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    BAD_REQUEST = "bad_request"
    SERVER_ERROR = "server_error"
    REDIRECTED = "redirected"
    NO_STREAM = "no_stream"
    GARBAGE = "garbage"
    TOO_LARGE = "too_large"
    EMPTY = "empty"
    CUT_OFF = "cut_off"
    DISCONNECTED = "disconnected"
    TIMED_OUT = "timed_out"


class RequestFailed(Exception):
    """One request failed. `detail` is what the server or the system said, in one line, without
    the key; `status` the HTTP status where there was one."""

    def __init__(self, fault: Fault, detail: str = "", status: int = 0) -> None:
        super().__init__(fault, detail)
        self.fault = fault
        self.detail = detail
        self.status = status


_KEY = Message(
    "put the key into {variable}, or into a file for {option}",
    variable=KEY_VARIABLE,
    option=FieldName("api_key_file"),
)
_LOG = "the log of the server tells why"
# What happened, and the way out.
_WORDS: Mapping[Fault, tuple[str, Message | str]] = {
    Fault.REFUSED: (
        "nothing answers at {url} ({detail})",
        "start the server, and name the host and port that it listens on",
    ),
    Fault.TLS: (
        "the certificate of {url} is not trusted ({detail})",
        "SSL_CERT_FILE names the authority that signed it",
    ),
    Fault.UNAUTHORISED: ("{url} refuses the request ({status}): {detail}", _KEY),
    Fault.NOT_FOUND: (
        "{url} does not know the route or the model ({status}): {detail}",
        Message(
            "name the URL up to /v1, and the model's name on the server by {option}",
            option=FieldName("served_model"),
        ),
    ),
    Fault.RATE_LIMITED: (
        "{url} limits how often it may be asked ({status}): {detail}",
        Message(
            "lift the limit for this key, or ask for less by {concurrency} or {rate}",
            concurrency=FieldName("concurrency"),
            rate=FieldName("rate"),
        ),
    ),
    Fault.BAD_REQUEST: (
        "{url} refuses what is asked ({status}): {detail}",
        Message(
            "prompt and answer must fit its longest context: {input} and {output}",
            input=FieldName("input_tokens"),
            output=FieldName("output_tokens"),
        ),
    ),
    Fault.SERVER_ERROR: ("{url} fails ({status}): {detail}", _LOG),
    Fault.REDIRECTED: (
        "{url} redirects ({status}) to {detail}",
        Message(
            "name that one as {option}: a key goes to no other host by itself", option=FieldName("endpoint")
        ),
    ),
    Fault.NO_STREAM: (
        "{url} does not stream: its answer is {detail}",
        "switch streaming on in the server or the proxy before it",
    ),
    Fault.GARBAGE: (
        "what {url} sends is no answer of an OpenAI-compatible server: {detail}",
        "name the server of the model itself, not a page or another service",
    ),
    Fault.TOO_LARGE: (
        "{url} sends more than an answer can hold: {detail}",
        "name the server of the model itself, not a page or another service",
    ),
    Fault.EMPTY: (
        "{url} ends its answers before their first token",
        Message(
            "ask for more than one by {option}; {log}", option=FieldName("output_tokens"), log=Message(_LOG)
        ),
    ),
    Fault.CUT_OFF: ("{url} ends an answer half-way, without saying that it is whole", _LOG),
    Fault.DISCONNECTED: ("{url} closes the connection ({detail})", _LOG),
    Fault.TIMED_OUT: (
        "{url} did not answer within {detail} s",
        "see whether it still computes; a load that it can hold has fewer requests at a time",
    ),
}


def failure(fault: Fault, url: str, detail: str = "", status: int = 0) -> MeasuringError:
    """The error of a measurement that a fault ended."""
    text, hint = _WORDS[fault]
    message = Message(text, code=fault, url=url, detail=detail or "-", status=status)
    return MeasuringError(message, hint=hint, code=fault)


def fault_of_status(status: int) -> Fault:
    """The fault behind an HTTP status other than 200."""
    known = {
        401: Fault.UNAUTHORISED,
        403: Fault.UNAUTHORISED,
        404: Fault.NOT_FOUND,
        405: Fault.NOT_FOUND,
        429: Fault.RATE_LIMITED,
    }
    if status in known:
        return known[status]
    if 300 <= status < 400:
        return Fault.REDIRECTED
    return Fault.BAD_REQUEST if 400 <= status < 500 else Fault.SERVER_ERROR
