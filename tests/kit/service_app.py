"""The app of services under test: handlers that behave and handlers that do not."""

ECHO, RAISE, NONSENSE, EXIT, KILL, LATE, SPIN, SLOW, LARGE, SILENT, WHO, INTERRUPT, WRITE, SECOND, STICKY = range(1, 16)
HELD = 16
"""Answered when there is a file `gate` beside the app."""

_APP = """
import asyncio, os, re, signal, sys, time
import rota

app = rota.App("trial"@APP@)
HERE = os.path.dirname(__file__)
VERSION = "@VERSION@"


def note(*words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


logic = app.service("logic", port=@PORT@, @OPTIONS@)


@logic.on(1, group=1)
@DEF@ echo(request):
    return request.body


@logic.on(2, group=1, timeout="30s")
@DEF@ fails(request):
    raise ValueError("no")


@logic.on(3, group=1, timeout="30s")
@DEF@ nonsense(request):
    return 17


@logic.on(4, group=1, timeout="30s")
@DEF@ leaves(request):
    sys.exit(3)


@logic.on(5, group=1, timeout="30s")
@DEF@ dies(request):
    os.kill(os.getpid(), signal.SIGKILL)


@logic.on(6, group=1, timeout="300ms")
@DEF@ late(request):
    @SLEEP@(60)


@logic.on(7, group=1, timeout="300ms")
@DEF@ spins(request):
    re.match(r"(a+)+$", "a" * 60 + "b")


@logic.on(8, group=1)
@DEF@ slow(request):
    note("begun", request.sn, os.getpid())
    @SLEEP@(float(request.body))
    note("done", request.sn, os.getpid())
    return VERSION.encode()


@logic.on(9, group=1)
@DEF@ large(request):
    return b"x" * int(request.body)


@logic.on(10, group=1)
@DEF@ silent(request):
    return None


@logic.on(11, group=1)
@DEF@ who(request):
    @SLEEP@(0.05)
    return f"{VERSION} {os.getpid()}".encode()


@logic.on(12, group=1)
@DEF@ interrupted(request):
    raise KeyboardInterrupt


@logic.on(13, group=1)
@DEF@ writes(request):
    request.write(b"first")
    request.write(b"second")
    return b"third"


@logic.on(14, group=@SECOND@)
@DEF@ second(request):
    return f"{VERSION} {request.group}".encode()


@logic.on(15, group=1, timeout="300ms")
def sticky(request):
    time.sleep(60)


@logic.on(16, group=1)
@DEF@ held(request):
    note("begun", request.sn, os.getpid())
    while not os.path.exists(os.path.join(HERE, "gate")):
        @SLEEP@(0.01)
    note("done", request.sn, os.getpid())
    return VERSION.encode()
"""


def service_app(port: int, options: str = "groups={1: 2}", **more: object) -> str:
    """The app's source: `version`, `app` (options of App), `second` (group of cmd 14), `is_async`, `extra` (code)."""
    is_async = bool(more.get("is_async"))
    filled = {
        "PORT": port,
        "OPTIONS": options,
        "VERSION": more.get("version", 1),
        "APP": more.get("app", ""),
        "SECOND": more.get("second", 1),
        "DEF": "async def" if is_async else "def",
        "SLEEP": "await asyncio.sleep" if is_async else "time.sleep",
    }
    text = _APP
    for name, value in filled.items():
        text = text.replace(f"@{name}@", str(value))
    return text + str(more.get("extra", ""))
