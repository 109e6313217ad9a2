"""Jobs that apps and files declare: what brings the stored ones to them. Pure.

A job belongs to its first declarer: an app, by name, a node's file, or a caller of the API. Its owner may change it. Of
several nodes with the same app, the one that loaded its code last decides, so that a new version wins as it is rolled
out. A node that only lost its session for a moment has loaded nothing, so it changes no job and adds those that are
gone. A declaration never enables or disables a job.

A job of an app goes when nodes run that app and none of them declares it any more. While no node runs the app the job
stays, with its cursor: its due times are decided when the app is back.
"""

from collections.abc import Iterable, Mapping

import msgspec

from rota.jobs.core.records import JobRecord, JobSpec, Origin


class DeclarationOwner(msgspec.Struct, frozen=True):
    """Whose declarations these are."""

    origin: Origin
    name: str
    """The name of the app, or of the node whose file it is."""

    def owns(self, record: JobRecord) -> bool:
        """Does this owner have this job?"""
        return record.origin is self.origin and (record.app or record.by) == self.name

    def __str__(self) -> str:
        return f'app "{self.name}"' if self.origin is Origin.APP else f"the file of node {self.name}"


class JobDiff(msgspec.Struct, frozen=True):
    """The jobs to write."""

    put: tuple[JobSpec, ...]
    """Jobs to write, ordered so that a job comes before those that follow it."""

    remove: tuple[str, ...]
    refused: Mapping[str, str]
    """Job → why this owner may not declare it."""


def differ(
    stored: Mapping[str, JobRecord], declared: Iterable[JobSpec], owner: DeclarationOwner, *, is_new: bool = True
) -> JobDiff:
    """What to write so that the stored jobs, by name, are as declared.

    Declarations of an app that are not new change no job that is there.
    """
    wanted = {job.name: job for job in declared}
    foreign = {name for name in wanted if name in stored and not owner.owns(stored[name])}
    may_change = is_new or owner.origin is Origin.FILE  # only this node declares the jobs of its file
    changed = [
        job
        for name, job in wanted.items()
        if name not in stored or (may_change and name not in foreign and stored[name].spec != job)
    ]
    # An app may run in other versions elsewhere; a file is complete.
    gone = [name for name, record in stored.items() if owner.owns(record) and name not in wanted]
    return JobDiff(
        put=tuple(_in_order(changed)),
        remove=tuple(gone) if owner.origin is Origin.FILE else (),
        refused={
            name: f"there is one of that name already, from {_whose(stored[name])}; give one of them another"
            for name in sorted(foreign)
        },
    )


def undeclared(stored: Mapping[str, JobRecord], apps: Iterable[tuple[str | None, Iterable[str]]]) -> set[str]:
    """Jobs of running apps that no node declares any more; `apps` has each node's app and its jobs."""
    declared: dict[str, set[str]] = {}
    for app, names in apps:
        if app is not None:
            declared.setdefault(app, set()).update(names)
    return {
        name
        for name, record in stored.items()
        if record.origin is Origin.APP and record.app in declared and name not in declared[record.app]
    }


def _in_order(jobs: Iterable[JobSpec]) -> list[JobSpec]:
    """Jobs, each behind those that it comes after."""
    left, placed = {job.name: job for job in jobs}, list[JobSpec]()
    while left:
        free = [job for job in left.values() if not left.keys() & set(job.after)] or list(left.values())
        for job in free:
            placed.append(left.pop(job.name))
    return placed


def _whose(record: JobRecord) -> str:
    if record.origin is Origin.API:
        return record.by or "an unknown user"
    return str(DeclarationOwner(record.origin, record.app or record.by))
