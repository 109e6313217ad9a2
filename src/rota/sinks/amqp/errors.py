"""Errors of the server: whether they pass by themselves, or an operator has to fix something."""

from rota.model.errors import Denied, Invalid, RotaError, Unavailable

ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, NOT_ALLOWED = 403, 404, 406, 530


def translate(shown: str, code: int, text: str) -> RotaError:
    """The error for a reply code and its text, which names the thing."""
    said = f"sink {shown}: {text}"
    if code == ACCESS_REFUSED:
        return Denied(f"{said}; check the user, its password and its permissions")
    if code == NOT_ALLOWED and "not found" in text:
        return Invalid(f"{said}; make the vhost, or correct the URL's path")
    if code == NOT_ALLOWED and "refused for user" in text:
        return Denied(f"{said}; give the user permissions on this vhost")
    if code == NOT_FOUND:
        return Invalid(f"{said}; make it, or correct exchange=")
    if code == PRECONDITION_FAILED:
        return Invalid(f"{said}; correct exchange= or exchange_type=, or delete what is there")
    return Unavailable(said)
