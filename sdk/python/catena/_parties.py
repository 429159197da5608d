"""Nodes and clients."""

from . import _native
from ._messages import Answer, Mailbox
from ._segments import Imported, Segment

_WITHOUT_SHARED_MEMORY = 1


class _Party(_native.Handle):
    @property
    def id(self):
        """The number of this run: what owners of segments give rights to."""
        return _native.made("id", self._number)

    def import_segment(self, name):
        """A segment of another node, by OWNER/NAME."""
        return Imported(_native.made("segment_import", self._number, name.encode()))

    def mailbox(self, service):
        """Takes messages for a service ID from now on."""
        return Mailbox(_native.made("mailbox_open", self._number, service.encode()))

    def send(self, to, *items, sender=""):
        """Sends a short message of at most 12 KiB, which may be lost."""
        _native.call("send_short", self._number, sender.encode(), to.encode(), *_native.items(items))

    def ask(self, to, *items, room=0, bytes_max=64 << 20, timeout_ms=10_000):
        """Asks a service; ``room`` is the size of the return buffer."""
        array, count = _native.items(items)
        return Answer(_native.made("ask", self._number, to.encode(), array, count, room, bytes_max, timeout_ms))


class Node(_Party):
    """A node: exports segments, takes messages, and is a client itself."""

    def __init__(self, name, listen="127.0.0.1:0", join=None, shared_memory=True):
        flags = 0 if shared_memory else _WITHOUT_SHARED_MEMORY
        join = None if join is None else join.encode()
        super().__init__(_native.made("node_start", name.encode(), listen.encode(), join, flags))

    @property
    def address(self):
        """Where others reach it."""
        return _native.text("node_address", self._number)

    def export(self, name, size, anyone=0):
        """Exports so many bytes; ``anyone``: what everybody may do, of READ, WRITE and CAS."""
        return Segment(_native.made("segment_export", self._number, name.encode(), size, anyone))


class Client(_Party):
    """A client of a node, and of all that it knows of."""

    def __init__(self, address, name="python", shared_memory=True):
        flags = 0 if shared_memory else _WITHOUT_SHARED_MEMORY
        super().__init__(_native.made("client_connect", name.encode(), address.encode(), flags))
