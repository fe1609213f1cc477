"""The check that mends: what killed sweeps left here."""

from __future__ import annotations

from typing import Any

from advisor.runs.doctor.finding import Finding, State
from advisor.sweeps.trial.orphans.orphan import Orphan
from advisor.sweeps.trial.orphans.removing import find_orphans, remove

_TOLD_COMMANDS = 3


def check_leftovers(*, keep: bool) -> Finding:
    """Remove it, or with `keep` only tell of it; what a live sweep owns is none."""
    left = find_orphans()
    if not left:
        return Finding(check="leftovers", state=State.OK, found="none", facts=_facts([], [], []))
    if keep:
        return Finding(
            check="leftovers",
            state=State.WARNING,
            found=f"of killed sweeps: {_named(left)}",
            advice="advisor doctor (without --dry-run) removes it, and so does the next sweep",
            facts=_facts(left, [], []),
        )
    outcome = remove(left)
    stuck = [orphan.orphan for orphan in outcome.stuck]
    facts = _facts(left, outcome.gone, stuck)
    if not stuck:
        text = f"of killed sweeps, removed: {_named(left)}"
        return Finding(check="leftovers", state=State.OK, found=text, facts=facts)
    reasons = sorted({orphan.reason for orphan in outcome.stuck})
    return Finding(
        check="leftovers",
        state=State.PROBLEM,
        facts=facts,
        found=f"cannot be removed ({'; '.join(reasons)}): {_named(stuck)}",
        advice=f"with the rights for it: sudo advisor doctor, or {_commands(stuck)}",
    )


def _named(left: list[Orphan]) -> str:
    """'5 cgroups (/sys/..), 1 folder (/tmp/..)': one name of each kind."""
    kinds: dict[str, list[Orphan]] = {}
    for orphan in left:
        kinds.setdefault(orphan.kind, []).append(orphan)
    return ", ".join(
        f"{len(some)} {_counted(kind, len(some))} ({some[0].name}{', ..' * (len(some) > 1)})"
        for kind, some in kinds.items()
    )


def _counted(kind: str, count: int) -> str:
    return kind if count == 1 else f"{kind}{'es' if kind.endswith('s') else 's'}"


def _commands(stuck: list[Orphan]) -> str:
    some = "; ".join(f"sudo {orphan.command}" for orphan in stuck[:_TOLD_COMMANDS])
    return some + "; .. (-o json has all)" * (len(stuck) > _TOLD_COMMANDS)


def _facts(found: Any, removed: Any, stuck: Any) -> dict[str, list[dict[str, str]]]:
    def listed(some: Any) -> list[dict[str, str]]:
        return [{"kind": orphan.kind, "name": orphan.name, "command": orphan.command} for orphan in some]

    return {"found": listed(found), "removed": listed(removed), "stuck": listed(stuck)}
