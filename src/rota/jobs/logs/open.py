"""Finding the place for run logs: the configured one, else beside the store if that is SQL, else in a folder.

etcd cannot keep logs: every member holds all data in memory.
"""

from pathlib import Path

from rota.jobs.logs.folder import FolderLogs
from rota.jobs.logs.port import Logs
from rota.model import url as urls
from rota.model.errors import Denied, Invalid
from rota.store.port import Store

SQL = frozenset({"sqlite", "postgresql", "mysql"})


def open_logs(wanted: str | None, store_url: str, store: Store, own: Path) -> Logs:
    """The logs of a node: at `wanted` (`folder:///srv/rota`), else in the store, else in the folder `own`."""
    if wanted is not None:
        return FolderLogs(_made(folder_of(wanted)), is_shared=True)
    if urls.parse(store_url, "store", "sqlite:///rota.db").scheme in SQL:
        from rota.jobs.logs.sql import SqlLogs  # noqa: PLC0415
        from rota.store.sql.log import LogStore  # noqa: PLC0415  # only a SQL store's own process needs it

        assert isinstance(store, LogStore)
        return SqlLogs(store.driver)
    return FolderLogs(_made(own))


def folder_of(text: str) -> Path:
    """The folder that a URL names; Invalid says how to write one."""
    url = urls.parse(text, "logs", "folder:///srv/rota")
    if url.scheme != "folder" or url.hosts or url.user or len(url.path) < 2 or url.options:
        raise Invalid(f"logs {text}: write folder:///srv/rota for a folder that all nodes share, or leave it out")
    return Path(url.path)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    except OSError as error:
        raise Denied(f"logs in {folder}: {error.strerror}; choose another folder, or make this one writable") from error
    return folder
