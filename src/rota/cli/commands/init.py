"""`rota init`: a small app to begin with."""

from pathlib import Path

import click

from rota.cli import options
from rota.cli.commands.starter import APP, SETTINGS
from rota.cli.options import Shape
from rota.cli.terminal import tables
from rota.model.errors import Conflict, Denied

FILES = {"app.py": APP, "rota.toml": SETTINGS}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@options.output(Shape.OBJECT)
def command(folder: Path) -> None:
    """Write a small app and its settings into FOLDER, which is this one unless named.

    The app has one of each kind of work: a job, a resource, a service and a stream. No file is overwritten.

    Example: rota init shop
    """
    _write(folder)
    names = [str(folder / name) for name in FILES]
    following = [f"cd {folder}"] if folder != Path() else []
    following.append("rota up app.py")
    tables.answer({"files": names, "next": following})
    tables.say(f"wrote {' and '.join(names)}")
    tables.say(f"next: {' && '.join(following)}")


def _write(folder: Path) -> None:
    """All files, or none: what is there already is found before anything is written."""
    for name in FILES:
        if (folder / name).exists():
            raise Conflict(f"{folder / name} is there already; move it away, or name another folder: rota init FOLDER")
    for name, content in FILES.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError:
            raise Conflict(f"{folder / name} is there already; move it away, or name another folder") from None
        except OSError as error:
            raise Denied(f"{folder / name}: {error.strerror}; name a folder that you may write to") from error
