"""When tasks ran, by what the app of a fleet under test noted; all clocks are this machine's."""

from collections import defaultdict

from tests.kit.fleet import Fleet

Life = tuple[float, float | None]
"""When it began, and when it ended; None: it runs."""


def lives(found: Fleet, kind: str = "room") -> dict[str, list[Life]]:
    """By task: its lives in the order in which they began, on whatever node."""
    seen: defaultdict[str, dict[tuple[str, str], Life]] = defaultdict(dict)
    for node in found.nodes.values():
        for word, *rest in node.notes():
            if word in ("start", "stop") and rest[0].startswith(f"{kind}/"):
                task, epoch, at = rest
                began, _ = seen[task].get((node.name, epoch), (float(at), None))
                seen[task][node.name, epoch] = began, None if word == "start" else float(at)
    return {task: sorted(each.values(), key=lambda life: life[0]) for task, each in seen.items()}


def gaps(found: Fleet, kind: str = "room") -> list[str]:
    """Tasks that nobody ran for a while between their first start and now."""
    return [task for task, each in lives(found, kind).items() if _is_torn(each)]


def _is_torn(each: list[Life]) -> bool:
    covered = each[0][1]
    for began, end in each[1:]:
        if covered is None:
            return False
        if began > covered:
            return True
        covered = None if end is None else max(covered, end)
    return covered is not None
