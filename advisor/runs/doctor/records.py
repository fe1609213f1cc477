"""Checks of what is kept: database and leases, unsaved measurements, the bundled data."""

from __future__ import annotations

import time
from datetime import date
from importlib.resources import files
from pathlib import Path

from advisor.errors import AdvisorError, DataError
from advisor.extras import install_command
from advisor.runs.doctor.finding import Finding, State

# A bundle of this age lacks prices of some newer types.
_WARN_DAYS = 30

_PATIENCE_SECONDS = 5.0
_CLOCKS_APART_SECONDS = 30.0


def check_database(patience_seconds: float = _PATIENCE_SECONDS) -> Finding:
    """Whether it answers, of which version it is, and who measures into it."""
    from advisor.store import default_database_url
    from advisor.store.description import describe

    try:
        state = describe(default_database_url(), patience_seconds=patience_seconds)
    except AdvisorError as error:
        return Finding(
            check="database",
            state=State.PROBLEM,
            found=str(error),
            advice="docs/reference/store.md tells what each trouble means",
        )
    rows = "1 row" if state["rows"] == 1 else f"{state['rows']:,} rows"
    text = f"{state['program']}, {state['name']}: {rows}"
    if state["tables"] == "nothing":
        text += "; its tables are made by the first sweep"
    if state["held"]:
        text += f"; measured into now by {', '.join(state['held'])}"
    if state["left_leases"]:
        text += f"; {state['left_leases']} leases of drivers that are gone, free to take"
    apart = abs(time.time() - state["now"]) if state["now"] else 0.0
    if apart > _CLOCKS_APART_SECONDS:
        return Finding(
            check="database",
            state=State.WARNING,
            facts=state,
            found=f"{text}; its clock and this one are {apart:.0f} s apart",
            advice="set both by NTP (timedatectl set-ntp true)",
        )
    return Finding(check="database", state=State.OK, found=text, facts=state)


def check_unsaved() -> Finding:
    """Measurements that a database could not take, and that nobody has imported yet."""
    from advisor.sweeps.driver.spool import unsaved_files

    paths = [str(path) for path in unsaved_files()]
    if not paths:
        return Finding(check="unsaved measurements", state=State.OK, found="none")
    return Finding(
        check="unsaved measurements",
        state=State.WARNING,
        facts={"files": paths},
        found=f"the database could not take what is in {', '.join(paths)}",
        advice=f"advisor measurements import {paths[0]}, then remove the file",
    )


def check_bundle(today: date | None = None) -> Finding:
    """Whether the bundled catalogue is whole, and how old its prices are."""
    from advisor.catalog.files import BundleFiles

    today = today or date.today()
    try:
        bundle = BundleFiles(Path(str(files("advisor") / "data")))
        bundle.verify()
        prices = date.fromisoformat(bundle.manifest["clouds"]["aws"]["as_of"])
    except (DataError, KeyError, ValueError) as error:
        return Finding(
            check="bundle",
            state=State.PROBLEM,
            found=str(error),
            advice=f"install the advisor anew: {install_command()} --force-reinstall --no-deps",
        )
    age = (today - prices).days
    digest = str(bundle.manifest["digest"])
    facts = {"digest": digest, "prices_as_of": prices.isoformat(), "age_days": age}
    text = f"whole (digest {digest[:12]}); prices of AWS of {prices}, {age} days old"
    if age <= _WARN_DAYS:
        return Finding(check="bundle", state=State.OK, found=text, facts=facts)
    return Finding(
        check="bundle",
        state=State.WARNING,
        found=text,
        facts=facts,
        advice="upgrade the advisor, or import newer prices: advisor catalog import",
    )


def dates_in_bundle() -> list[date]:
    """When the bundled prices were true; empty where it cannot be read."""
    from advisor.catalog.files import BundleFiles

    try:
        manifest = BundleFiles(Path(str(files("advisor") / "data"))).manifest
        return [date.fromisoformat(cloud["as_of"]) for cloud in manifest["clouds"].values()]
    except (DataError, KeyError, ValueError):
        return []
