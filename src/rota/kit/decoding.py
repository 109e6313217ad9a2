"""What decoders raise for bytes that are not what they should be.

msgspec has errors of its own, but text that is no UTF-8 and nesting that is too deep come as Python's. Code that
decodes foreign data catches all of them.
"""

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
