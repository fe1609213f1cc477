"""Headers of every answer: what a browser may do with it."""

from __future__ import annotations

from starlette.types import Message

Headers = tuple[tuple[bytes, bytes], ...]

# Only our own files, no inline script or style, nothing embedded anywhere, forms only to us.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_UNUSED = (
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "picture-in-picture",
    "publickey-credentials-get",
    "screen-wake-lock",
    "usb",
    "xr-spatial-tracking",
)
ALWAYS: Headers = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", ", ".join(f"{one}=()" for one in _UNUSED).encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
HSTS: Headers = ((b"strict-transport-security", b"max-age=31536000"),)
_CORS = b"access-control-"
_NO_STORE = (b"cache-control", b"no-store")
_ASK_AGAIN = (b"cache-control", b"private, no-cache")


def dress(start: Message, *, scheme: str, more: Headers = ()) -> None:
    """Add them to an `http.response.start`. Answers are not stored, those with an ETag asked for
    again, unless a route has said something else (the page's own files never change). What would
    open CORS is taken out."""
    own = [one for one in start.get("headers", ()) if not one[0].lower().startswith(_CORS)]
    names = {name.lower() for name, _ in own}
    if b"cache-control" not in names:
        own.append(_ASK_AGAIN if b"etag" in names else _NO_STORE)
    own += [one for one in ALWAYS if one[0] not in names]
    own += HSTS if scheme == "https" else ()
    own += more
    start["headers"] = own
