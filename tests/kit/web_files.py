"""The files of the dashboard."""

from importlib.resources import files

from rota.web.routes import TYPES

STATIC = files("rota.web") / "static"


def texts() -> dict[str, str]:
    """Every file of the dashboard by its path."""
    folders, found = [("", STATIC)], {}
    while folders:
        above, folder = folders.pop()
        for each in folder.iterdir():
            if each.is_dir():
                folders.append((f"{above}{each.name}/", each))
            elif each.name[each.name.rfind(".") :] in TYPES:
                found[above + each.name] = each.read_text()
    return found
