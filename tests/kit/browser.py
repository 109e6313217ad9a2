"""A real browser at a node's dashboard: Debian's Chromium, driven by Playwright."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from playwright.async_api import Browser, ConsoleMessage, Dialog, Locator, Page, async_playwright, expect

from tests.kit import obtain

ARGUMENTS = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
WIDE, NARROW = (1600, 1000), (390, 844)
"""Pixels of a desk's screen and of a telephone's."""

PATIENCE = 30_000
"""Milliseconds that the page may take to show what it should."""

expect.set_options(timeout=PATIENCE)


@asynccontextmanager
async def open_browser(*more: str) -> AsyncIterator[Browser]:
    """A browser without a window; `more` is what it is told besides."""
    program = obtain.BACKENDS["chromium"].find()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS, *more])
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Dashboard:
    """One page of the dashboard, and what went wrong in it."""

    page: Page
    origin: str
    """The node's `http://host:port`."""

    errors: list[str] = field(default_factory=list)
    """What scripts raised, and what the browser complained of; that something was refused is no complaint."""

    def note(self, said: ConsoleMessage) -> None:
        """Take note of what the browser says."""
        if said.type == "error" and not said.text.startswith("Failed to load resource"):
            self.errors.append(said.text)

    async def startle(self, dialog: Dialog) -> None:
        """A box of the browser's own: the dashboard has none, so somebody's script ran."""
        self.errors.append(f"a box opened: {dialog.message}")
        await dialog.dismiss()

    async def go(self, *path: str) -> None:
        """Show a screen, as a link would."""
        await self.page.goto(f"{self.origin}/#/{'/'.join(quote(part, safe='') for part in path)}")
        await self.page.locator(f"#screen-{path[0]} h1").wait_for()

    def button(self, name: str) -> Locator:
        """A button of the screen by what it says."""
        return self.page.locator("main").get_by_role("button", name=name, exact=True)

    def row(self, table: str, text: str) -> Locator:
        """A row of a table that has this text."""
        return self.page.locator(f"#table-{table} tbody tr").filter(has_text=text)

    def panel(self, name: str) -> Locator:
        """A part of the screen by its heading."""
        return self.page.get_by_role("region", name=name, exact=True)

    async def answer(self, verb: str, **fields: str) -> None:
        """Fill in the question that is asked, and agree."""
        dialog = self.page.get_by_role("dialog")
        for name, value in fields.items():
            control = dialog.locator(f"[name={name}]")
            await (control.select_option(value) if await _is_select(control) else control.fill(value))
        await dialog.get_by_role("button", name=verb, exact=True).click()

    def toast(self, text: str) -> Locator:
        """What is said after something was done."""
        return self.page.locator("#toasts").get_by_text(text)


async def _is_select(control: Locator) -> bool:
    return bool(await control.evaluate("element => element.tagName === 'SELECT'"))


@asynccontextmanager
async def open_dashboard(
    browser: Browser, address: str, token: str | None, size: tuple[int, int] = WIDE, *, tls: bool = False
) -> AsyncIterator[Dashboard]:
    """The dashboard of a node in a window of its own; with a token, somebody has come in. No certificate is checked."""
    (width, height), origin = size, f"{'https' if tls else 'http'}://{address}"
    context = await browser.new_context(
        viewport={"width": width, "height": height}, locale="en-GB", ignore_https_errors=tls
    )
    context.set_default_timeout(PATIENCE)
    if token is not None:
        came_in = await context.request.post(f"{origin}/v1/session", data={"token": token})
        assert came_in.ok, await came_in.text()
        await context.add_init_script("localStorage.setItem('rota.session', 'yes')")
    page = await context.new_page()
    shown = Dashboard(page, origin)
    page.on("pageerror", lambda error: shown.errors.append(str(error)))
    page.on("console", shown.note)
    page.on("dialog", shown.startle)
    try:
        yield shown
    finally:
        await context.close()
