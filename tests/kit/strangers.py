"""Pages of another site in a real browser whose user has come in at a node: what they try, and what comes of it.

The page is served from a port of this machine. By the name `localhost` it is of another site than the node, which is
asked by its address; by the address it is of the same site, only of another origin, and the browser sends it the
session's cookie along.
"""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playwright.async_api import Browser, Page, Response

from rota.doors.http.session import COOKIE
from tests.kit.browser import PATIENCE, open_browser
from tests.kit.doors import Door
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

REBOUND = "rebound.example"
"""A name that is nobody's, and that the browser is told to be this machine's."""

PAGE = b"""<!doctype html><title>another site</title><iframe name="hidden"></iframe><script>
const node = location.hash.slice(1), wanted = JSON.stringify({kind: "room", id: "stolen"});

async function tried(attempt) {
  try { return await attempt(); } catch (error) { return `blocked: ${error.name}`; }
}

const ask = (path, options) => fetch(`http://${node}${path}`, {credentials: "include", ...options});
const told = async (answer) => (await answer).type === "opaque" ? "unseen" : `seen: ${(await answer).status}`;

const stream = () => new Promise((say) => {
  const events = new EventSource(`http://${node}/v1/events/watch`, {withCredentials: true});
  events.onopen = () => say("open");
  events.onerror = () => { events.close(); say("blocked"); };
});

const form = () => new Promise((say) => {
  const made = document.createElement("form");
  Object.assign(made, {method: "POST", action: `http://${node}/v1/resources`, enctype: "text/plain", target: "hidden"});
  made.innerHTML = `<input name='{"kind": "room", "id": "stolen", "x": "' value='"}'>`;
  document.body.append(made);
  document.querySelector("iframe").onload = () => say("unseen");
  made.submit();
});

const script = () => new Promise((say) => {
  const made = document.createElement("script");
  Object.assign(made, {src: `http://${node}/v1/nodes`, onload: () => say("run"), onerror: () => say("blocked")});
  document.head.append(made);
});

async function all() {
  const json = {"content-type": "application/json"}, plain = {method: "POST", mode: "no-cors"};
  return {
    "a POST of JSON": await tried(() => told(ask("/v1/resources", {method: "POST", headers: json, body: wanted}))),
    "a POST that needs no leave": await tried(() => told(ask("/v1/resources", {...plain, body: wanted}))),
    "a form": await tried(form),
    "an event stream": await tried(stream),
    "reading an answer": await tried(() => told(ask("/v1/nodes", {}))),
    "an answer as a script": await tried(script),
  };
}
</script>"""


@dataclass
class Tried:
    """What a page tried, and what the node answered."""

    outcomes: dict[str, str]
    """What the page came to know, by attempt."""

    statuses: list[int] = field(default_factory=list)
    """What the node answered, whoever saw it."""

    @property
    def got_through(self) -> list[str]:
        """Attempts of which the page saw something, and answers that were no refusal."""
        seen = [what for what, outcome in self.outcomes.items() if not outcome.startswith(("blocked", "unseen"))]
        return [*seen, *(f"answered {status}" for status in self.statuses if status < 400)]


@contextmanager
def another_site() -> Iterator[int]:
    """The port where the page is served."""

    class Serving(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: object) -> None:
            """Nobody wants to know."""

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Serving) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            serving.join()


async def visit(browser: Browser, door: Door, site: str) -> Tried:
    """Have a user who has come in at the node visit the page at `site`."""
    async with _visitor(browser, door) as page:
        tried = Tried({})

        def note(answer: Response) -> None:
            if answer.url.startswith(f"http://{door.address}"):
                tried.statuses.append(answer.status)

        page.on("response", note)
        await page.goto(f"http://{site}/#{door.address}")
        tried.outcomes |= await page.evaluate("all()")
        return tried


async def framed(browser: Browser, door: Door, site: str) -> str:
    """Where a frame ends up in which the page at `site` shows the dashboard."""
    async with _visitor(browser, door) as page:
        await page.goto(f"http://{site}/#{door.address}")
        await page.evaluate(f"document.querySelector('iframe').src = 'http://{door.address}/'")

        def place() -> str | None:
            (frame,) = page.main_frame.child_frames
            return frame.url if frame.url not in ("", "about:blank") else None

        return await eventually(place)


async def rebound(door: Door) -> int:
    """The status for who is sent to the node by a name that was made to mean this machine."""
    port = door.address.rpartition(":")[2]
    async with open_browser(f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1") as browser:
        page = await browser.new_page()
        answer = await page.goto(f"http://{REBOUND}:{port}/v1/nodes")
        assert answer is not None
        return answer.status


def stolen(door: Door) -> list[Any]:
    """What the attempts have made."""
    listed: list[Any] = json.loads(door.http("GET", "/v1/resources?prefix=stolen")[1])["resources"]
    return listed


@asynccontextmanager
async def _visitor(browser: Browser, door: Door) -> AsyncIterator[Page]:
    """A page of somebody who has come in at the node."""
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE)
    cookie: Any = {"name": COOKIE, "value": door.token, "url": f"http://{door.address}", "httpOnly": True}
    await context.add_cookies([{**cookie, "sameSite": "Strict"}])
    try:
        yield await context.new_page()
    finally:
        await context.close()
