"""Catena for Python: segments as memoryviews, messages, return buffers, service IDs.

It stands on the C interface alone (``libcatena_c.so``, found by ``CATENA_LIBRARY`` or by the system), so there is nothing to compile.

    with Node("here", "127.0.0.1:0") as node, node.export("prices", 8000, READ) as prices:
        view = prices.map()                      # a memoryview of the segment's own pages
        numpy.frombuffer(view, "f8")[0] = 3.20   # what importers on this host read is this

What goes wrong is an :class:`Error`, whose ``name`` is the exception's.
"""

from ._native import Error, UnknownOutcome
from ._parties import Client, Node
from ._segments import CAS, READ, WRITE, Imported, Segment, is_current
from ._messages import Answer, Mailbox, Message

__all__ = [
    "Answer", "CAS", "Client", "Error", "Imported", "Mailbox", "Message", "Node", "READ", "Segment", "UnknownOutcome", "WRITE", "is_current",
]
