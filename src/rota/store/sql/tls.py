"""TLS for the SQL databases: `?tls=on`, `?ca=FILE`, `?cert=FILE&key=FILE`."""

import ssl

from rota.model.errors import Invalid
from rota.store.url import Options, StoreUrl


def context(url: StoreUrl, options: Options) -> ssl.SSLContext | None:
    """The TLS context of the options; None for no TLS. Naming a file turns TLS on."""
    ca, cert, key = options.text("ca"), options.text("cert"), options.text("key")
    if key and not cert:
        raise Invalid(f"store {url}: key= without cert=; give both, or neither")
    is_on = options.choice("tls", ("on", "off") if ca or cert else ("off", "on")) == "on"
    if not is_on:
        return None
    try:
        made = ssl.create_default_context(cafile=ca)
        if cert:
            made.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"store {url}: the certificate files cannot be used: {error}") from None
    return made
