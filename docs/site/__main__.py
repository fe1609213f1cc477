"""`python -m docs.site` (`make docs`): the site, in build/docs/site. Any warning is an error.

The pages are gathered in build/docs/pages: docs/, README.md as the home page, CONTRIBUTING.md and
CHANGELOG.md, the commands, and every file of the project to which a page leads.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

from docs.site.arguments import arguments_page
from docs.site.commands import command_pages

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
ASSETS = ("file_worker.js", "site.css")
SCHEMAS = "advisor/render/schemas"
# Where files outside docs/ stand on the site.
PLACES = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh-CN.md",
    "CONTRIBUTING.md": "internals/contributing.md",
    "CHANGELOG.md": "reference/changes.md",
    SCHEMAS: "reference/schemas.md",
}
# What makes search work in pages that are opened as files, from another host: we bring our own.
_FOREIGN = re.compile(r'src="?https://unpkg\.com/iframe-worker/shim"?')
_LINK = re.compile(r"(\]\()(?!#|[a-z]+:)([^)#\s]+)")


def main(build: Path = ROOT / "build" / "docs") -> int:
    """Gather the pages in a folder and build them there; the exit code is the builder's."""
    shutil.rmtree(build, ignore_errors=True)
    for place, content in pages().items():
        (build / "pages" / place).parent.mkdir(parents=True, exist_ok=True)
        (build / "pages" / place).write_bytes(content)
    (build / "mkdocs.yml").write_text(settings())
    command = [Path(sys.executable).parent / "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=build, check=False)
    for page in (build / "site").rglob("*.html"):
        up = "../" * (len(page.relative_to(build / "site").parts) - 1)
        page.write_text(_FOREIGN.sub(f'src="{up}assets/file_worker.js"', page.read_text()))
    return built.returncode


def pages() -> dict[str, bytes]:
    """Every file of the site, by where it stands there."""
    found: dict[str, bytes] = {}
    for source, place in places().items():
        found |= _moved(source, place)
    for name, text in command_pages().items():
        found[f"reference/commands/{name}.md"] = text.encode()
    found["reference/arguments.md"] = arguments_page().encode()
    return found | _schemas() | {f"assets/{name}": (HERE / name).read_bytes() for name in ASSETS}


def places() -> dict[str, str]:
    """Each page of the project, and where it stands on the site."""
    files = [path for path in (ROOT / "docs").rglob("*") if path.is_file()]
    own = [path.relative_to(ROOT).as_posix() for path in files if HERE not in path.parents]
    found = {path: path.removeprefix("docs/") for path in own}
    return found | {path: place for path, place in PLACES.items() if path != SCHEMAS}


def settings() -> str:
    """mkdocs.yml with the commands in its navigation."""
    text = (ROOT / "mkdocs.yml").read_text()
    lines = [f"          - reference/commands/{name}.md" for name in command_pages()]
    text = text.replace("- Commands: commands", "\n".join(["- Commands:", *lines]))
    return f"docs_dir: pages\nsite_dir: site\n{text}"


def _schemas() -> dict[str, bytes]:
    """The schemas of documents, and a page with the name of each."""
    lines = ["# JSON schemas", "", "What `-o json` prints, and what is read back.", ""]
    lines += ["| document | schema |", "| --- | --- |"]
    found = {}
    for path in sorted((ROOT / SCHEMAS).glob("*.json")):
        place = _place(path.relative_to(ROOT).as_posix())
        found[place] = path.read_bytes()
        title = json.loads(found[place]).get("title", path.name.split(".")[0])
        lines.append(f"| {title} | [{path.name}](../{place}) |")
    return found | {PLACES[SCHEMAS]: "\n".join([*lines, ""]).encode()}


def _moved(source: str, place: str) -> dict[str, bytes]:
    """A file, its links led to where their ends stand, and the files of code to which it leads."""
    if not source.endswith(".md"):
        return {place: (ROOT / source).read_bytes()}
    found = {}

    def moved(link: re.Match[str]) -> str:
        target = os.path.normpath(PurePosixPath(source).parent / link[2])
        end = _place(target)
        if end.startswith("files/"):
            found[end] = (ROOT / target).read_bytes()
        return link[1] + os.path.relpath(end, PurePosixPath(place).parent)

    text = _LINK.sub(moved, (ROOT / source).read_text())
    if place in ("index.md", "tutorial.md"):
        text = f"---\nhide: [navigation]\n---\n\n{text}"
    return found | {place: text.encode()}


def _place(target: str) -> str:
    """Where a file of the project stands on the site."""
    if target in PLACES or target.startswith("docs/"):
        return PLACES.get(target, target.removeprefix("docs/"))
    return f"files/{target}" + (".txt" if target.endswith(".md") else "")


if __name__ == "__main__":
    sys.exit(main())
