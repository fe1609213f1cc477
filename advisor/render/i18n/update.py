"""`python -m advisor.render.i18n.update` brings the translations up to date. It needs Babel.

It extracts every translatable text of the product into zh_CN.po, keeps existing translations, and compiles
zh_CN.mo. It prints the texts without a translation."""

from __future__ import annotations

import ast
import csv
import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from advisor import errors
from advisor.domain import Market, Provenance, Task
from advisor.domain.words import LanguageTask
from advisor.render.i18n.catalogue import FOLDER

PRODUCT = FOLDER.parents[2]
PO, MO = FOLDER / "zh_CN.po", FOLDER / "zh_CN.mo"
ROOMS = ("advisor", "models", "sweeps", "infra")
# Messages of these modules only reach a terminal, where the language is English.
TERMINAL = (
    *("advisor/cli/", "advisor/store/", "models/zoo/", "sweeps/", "infra/"),
    *("advisor/runs/delivery/", "advisor/runs/endpoint/", "advisor/runs/verification/"),
    *("advisor/runs/measuring_script.py", "advisor/runs/probing.py", "advisor/runs/fitting.py"),
    *("advisor/runs/cloud/sweep.py", "advisor/runs/cloud/exchange.py", "advisor/runs/cloud/agent.py"),
)
KEYED = ("advisor/render/i18n/texts/*.json", "advisor/service/page/texts/*.json")
ERRORS = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.AdvisorError)
}


# The terms of prices.
_SHARES = ("under 5 %", "5 to 10 %", "10 to 15 %", "15 to 20 %", "over 20 %")
_TERMS = ("other people's hosts", *(f"{share} interrupted within a month" for share in _SHARES))
_UNITS = ("images/s", "sequences/s", "samples/s", "tokens/s", "output tokens/s")
# A fixed date, so that the same texts give the same bytes.
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)


def extracted() -> Catalog:
    """Return every text to translate, as an untranslated catalogue without dates."""
    catalogue = Catalog(locale="zh_CN", fuzzy=False)
    for pattern in KEYED:
        for file in sorted(PRODUCT.glob(pattern)):
            for key, text in json.loads(file.read_text(encoding="utf-8")).items():
                catalogue.add(text, context=key)
    sources = (PRODUCT / "advisor/data/catalog/sources.csv").read_text(encoding="utf-8")
    notes = {row["note"].rstrip(".") for row in csv.DictReader(io.StringIO(sources))} - {""}
    # Messages are built from these values at run time.
    for name in (*map(str, (*Task, *Provenance, *LanguageTask, *Market)), *_UNITS, *_TERMS, *sorted(notes)):
        catalogue.add(name)
    for room in ROOMS:
        for file in sorted((PRODUCT / room).rglob("*.py")):
            name = file.relative_to(PRODUCT).as_posix()
            for text in _texts(ast.parse(file.read_text(encoding="utf-8")), name):
                catalogue.add(text)
    return catalogue


def _texts(tree: ast.Module, file: str) -> Iterator[str]:
    """Yield the literal texts of messages and errors, and hints of errors, in a file."""
    if file.startswith(TERMINAL):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            name = node.func.id
            # `error_in(field, text, hint=..)` of questions makes an error as well.
            text = _literal(node.args[1 if name == "error_in" and len(node.args) > 1 else 0])
            is_error = name == "error_in" or name in ERRORS
            if text and (name == "Message" or is_error):
                yield text
            if is_error:
                yield from filter(None, (_literal(k.value) for k in node.keywords if k.arg == "hint"))


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def updated() -> Catalog:
    """Return the catalogue of all current texts, with the translations that it had."""
    today, known = extracted(), read_po(io.BytesIO(PO.read_bytes()), locale="zh_CN")
    for message in today:
        before = known.get(message.id, message.context) if message.id else None
        if before is not None and before.string:
            message.string = str(before.string)
    return today


def po_bytes(catalogue: Catalog) -> bytes:
    """Return the .po file, without dates."""
    out = io.BytesIO()
    write_po(out, catalogue, width=100, omit_header=True, sort_output=True, no_location=True)
    return b'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n' + out.getvalue()


def mo_bytes(catalogue: Catalog) -> bytes:
    """Return the .mo file that gettext reads, without dates."""
    plain = Catalog(locale="zh_CN", header_comment="", creation_date=_NEVER, revision_date=_NEVER)
    plain.mime_headers = [("Content-Type", "text/plain; charset=utf-8")]
    for message in catalogue:
        if message.id and message.string:
            plain.add(message.id, message.string, context=message.context)
    out = io.BytesIO()
    write_mo(out, plain)
    return out.getvalue()


def missing(catalogue: Catalog) -> list[str]:
    """Return the English texts without a translation."""
    return [str(message.id) for message in catalogue if message.id and not message.string]


def main() -> None:
    """Update both files."""
    catalogue = updated()
    PO.write_bytes(po_bytes(catalogue))
    MO.write_bytes(mo_bytes(catalogue))
    for text in missing(catalogue):
        sys.stdout.write(f"not translated: {text}\n")


if __name__ == "__main__":
    main()
