"""matplotlib's SVG without what nobody sees: a third of the bytes.

A report of fifty workloads may hold 1.5 MB. What matches no pattern stays as it was, so that
another version of matplotlib makes a larger file, not a wrong one.
"""

from __future__ import annotations

import re
from collections import Counter

_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_UNSEEN = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_GROUP = re.compile(r'<g(?: id="[^"]*")?>|</g>')
_LADEN_GROUP = re.compile(r'<g (?!id="[^"]*">)')
_GAP = re.compile(r">\s+<")
_TAG = re.compile(r"<[^>]*>")
# Within a tag:
_UNUSED = re.compile(r' id="(?:figure|patch|line2d|text)_\d+"| transform="rotate\(-?0 [^"]*\)"')
_FAMILY = re.compile(r"; font-family: [^;\"]*")
_NUMBER = re.compile(r"-?\d+\.\d+")
_PATH = re.compile(r' d="([^"]*)"')
_MARKER = re.compile(r'<path id="(m[0-9a-f]{10})"')
_XLINK = ' xmlns:xlink="http://www.w3.org/1999/xlink"'
_STYLE = re.compile(r' style="([^"]*)"')
_SHEET_END = "</style>"
_COLOUR = re.compile(r"#([0-9a-f])\1([0-9a-f])\2([0-9a-f])\3")
_PLACE = re.compile(r' (x|y|width|height)="(-?\d+\.\d+)"')


def compact(svg: str, fonts: str) -> str:
    """The same picture; `fonts` are those of all its texts. Texts are not touched."""
    svg = _UNSEEN.sub("", _PROLOGUE.sub("", svg))
    if not _LADEN_GROUP.search(svg):
        svg = _GROUP.sub("", svg)
    svg = _TAG.sub(lambda found: _shorter_tag(found[0]), _GAP.sub("><", svg))
    svg = _with_short_ids(_with_classes(svg))
    return svg.replace("<svg ", f'<svg font-family="{fonts}" ', 1).strip()


def _shorter_tag(tag: str) -> str:
    tag = _FAMILY.sub("", _UNUSED.sub("", tag))
    tag = _PATH.sub(lambda found: f' d="{_shorter(found[1])}"', tag)
    tag = _PLACE.sub(lambda found: f' {found[1]}="{_rounded(found[2])}"', tag)
    tag = _COLOUR.sub(r"#\1\2\3", tag)
    return tag.replace(": ", ":").replace("; ", ";").replace(";stroke-linejoin:miter", "")


def _with_short_ids(svg: str) -> str:
    """Markers are told by their number; a link needs no name space since SVG 2."""
    ids = dict.fromkeys(_MARKER.findall(svg))
    for number, name in enumerate(ids):
        svg = svg.replace(f'id="{name}"', f'id="m{number}"')
        svg = svg.replace(f'xlink:href="#{name}"', f'href="#m{number}"')
    return svg if "xlink:href" in svg else svg.replace(_XLINK, "")


def _with_classes(svg: str) -> str:
    """A look that comes often is written once, as a class of the picture's own style sheet."""
    counts = Counter(found[1] for tag in _TAG.findall(svg) for found in _STYLE.finditer(tag))
    often = [look for look, times in counts.items() if times > 1]
    names = {look: f"s{number}" for number, look in enumerate(often)}
    if not names or _SHEET_END not in svg:
        return svg
    sheet = "".join(f".{name}{{{look}}}" for look, name in names.items())
    return _TAG.sub(
        lambda tag: _STYLE.sub(
            lambda found: f' class="{names[found[1]]}"' if found[1] in names else found[0], tag[0]
        ),
        svg,
    ).replace(_SHEET_END, f"{sheet}{_SHEET_END}", 1)


def _shorter(path: str) -> str:
    path = _NUMBER.sub(lambda found: _rounded(found[0]), path)
    return re.sub(r"\s+(?=[A-Za-z])|(?<=[A-Za-z])\s+", "", path).strip()


def _rounded(number: str) -> str:
    """A tenth of a point is less than a printer's dot."""
    text = f"{float(number):.1f}".removesuffix(".0")
    return "0" if text in ("-0", "-0.0") else text
