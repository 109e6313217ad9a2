"""What the control socket understands of services: list, stat, clear, resize.

A service may be left unnamed where there is only one.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from rota.model.errors import Invalid, NotFound, Unavailable
from rota.model.spec.checks import Check
from rota.runtime.control_socket import Verb
from rota.services.core.admin_spec import AdminSpec
from rota.services.node.door import ServicesDoor


def service_verbs(door: Callable[[], ServicesDoor | None], closed: Callable[[], dict[str, str]]) -> dict[str, Verb]:
    """The verbs; `closed` says which admin doors could not be opened, and why."""

    async def list_services(_: dict[str, Any]) -> Any:
        services = _there(door())
        names = services.names()
        return await asyncio.gather(*[_row(services, name, services.admin(name), closed().get(name)) for name in names])

    async def stat(request: dict[str, Any]) -> Any:
        services = _there(door())
        return await services.stat(_named(services, request))

    async def clear(request: dict[str, Any]) -> Any:
        services = _there(door())
        name, groups = _named(services, request), request.get("groups")
        if groups is not None:
            groups = [_group(Check("service", name), group) for group in groups]
        return {"service": name, "dropped": await services.clear(name, groups)}

    async def resize(request: dict[str, Any]) -> Any:
        services = _there(door())
        name = _named(services, request)
        check = Check("service", name)
        group, count = _group(check, request.get("group")), check.count("count", request.get("count"))
        before = await services.resize(name, group, count)
        return {"service": name, "group": group, "before": before, "count": count}

    return {"services": list_services, "service.stat": stat, "service.clear": clear, "service.resize": resize}


async def _row(services: ServicesDoor, name: str, admin: AdminSpec | None, closed: str | None) -> dict[str, Any]:
    """One service in the list; one that does not answer is listed too, with the reason."""
    row = {"service": name, "admin": str(admin) if admin else None, "admin_closed": closed}
    try:
        return {**row, "stat": await services.stat(name), "error": None}
    except Unavailable as error:
        return {**row, "stat": None, "error": str(error)}


def _there(services: ServicesDoor | None) -> ServicesDoor:
    if services is None or not services.names():
        raise NotFound(
            "this node runs no services; its app declares none or is not loaded yet, or it has no app",
            code="service_not_found",
        )
    return services


def _named(services: ServicesDoor, request: dict[str, Any]) -> str:
    """The service that is meant."""
    name, known = request.get("service"), services.names()
    if name is None:
        if len(known) > 1:
            raise Invalid(f"there are several services; name one of {', '.join(known)}")
        return known[0]
    return str(name)


def _group(check: Check, group: object) -> int:
    return check.count("group", group, least=-(1 << 31), most=(1 << 31) - 1)
