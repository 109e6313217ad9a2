"""The files of the dashboard and of the API's reference (`/docs`), as the HTTP door serves them.

The files are public and contain no secret, so they need no token; the data comes from the API, which does. They are
read once, when the door opens: only files of this package are served.

The content security policy lets a page load scripts and styles from this node alone, and connect to it alone: HTML in a
name or a log line could do nothing even if a page rendered it as HTML, which none does.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.errors import NotFound

HOME = "/"
DOCS = "/docs"
BELOW = "/static/"
"""Where the files are."""

TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_page(path: str) -> bool:
    """Is it one of the dashboard's files, which need no token?"""
    return path in (HOME, DOCS) or path.startswith(BELOW)


def pages() -> list[Route]:
    """The routes of the dashboard."""
    held = {path: (content, TYPES[path[path.rfind(".") :]]) for path, content in _walk(files(__package__) / "static")}

    async def home(request: Request) -> Response:
        return _file(*held["index.html"])

    async def docs(request: Request) -> Response:
        return _file(*held["docs.html"])

    async def static(request: Request) -> Response:
        path = request.path_params["path"]
        if path not in held:
            raise NotFound(f"the dashboard has no file {path}; open {HOME} again, this node may run another Rota now")
        return _file(*held[path])

    return [Route(HOME, home), Route(DOCS, docs), Route(f"{BELOW}{{path:path}}", static)]


def _walk(folder: Traversable, above: str = "") -> list[tuple[str, bytes]]:
    """Every file below a folder that is of a type we serve, by its path from there."""
    found = []
    for each in folder.iterdir():
        path = f"{above}{each.name}"
        if each.is_dir():
            found += _walk(each, f"{path}/")
        elif path[path.rfind(".") :] in TYPES:
            found.append((path, each.read_bytes()))
    return found


def _file(content: bytes, kind: str) -> Response:
    return Response(content, headers=HEADERS, media_type=kind)
