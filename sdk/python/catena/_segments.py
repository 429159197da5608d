"""Segments: memory that others share."""

import ctypes
from ctypes import byref, c_int32, c_uint64, c_void_p

from . import _native

READ, WRITE, CAS = 1, 2, 4


class _Map(_native.Handle):
    """Keeps pages mapped for as long as a view of them is used."""


class _Common(_native.Handle):
    def __len__(self):
        return _native.made("segment_bytes", self._number)

    def read(self, offset, count):
        """Copies bytes out."""
        out = ctypes.create_string_buffer(count)
        _native.call("segment_read", self._number, offset, out, count)
        return out.raw

    def write(self, offset, data):
        """Copies bytes in."""
        data = bytes(data)
        _native.call("segment_write", self._number, offset, data, len(data))

    def cas(self, offset, expected, desired):
        """Puts ``desired`` in the place of the word of 8 bytes at ``offset`` if that is ``expected``; returns what was there."""
        return _native.made("segment_cas", self._number, offset, expected, desired)

    def _mapped(self, write):
        address, size, number = c_void_p(), c_uint64(), c_uint64()
        _native.call("segment_map", self._number, int(write), byref(address), byref(size), byref(number))
        # A type of its own, whose instances can hold on to the map: the view holds on to the instance, as numpy's arrays do to the view.
        kind = type("Pages", (ctypes.c_ubyte * size.value,), {})
        pages = kind.from_address(address.value)
        pages.map = _Map(number.value)
        view = memoryview(pages).cast("B")
        return view if write else view.toreadonly()


class Segment(_Common):
    """A segment of this process."""

    def map(self):
        """Its own pages as a memoryview: what is written there is what importers on this host read. They stay mapped as long as any view of them is used."""
        return self._mapped(True)

    def allow(self, importer, rights):
        """Gives one importer, by its ``id``, rights of its own."""
        _native.call("segment_allow", self._number, importer, rights)

    def revoke(self):
        """Takes it back: nobody else reads or changes it any more."""
        _native.call("segment_revoke", self._number)


class Imported(_Common):
    """A segment of another node."""

    def map(self, write=False):
        """The owner's pages as a memoryview, where they are shared with this process (else ``Error``, ``NoRight``). The owner may change them at any time."""
        return self._mapped(write)

    def flush(self):
        """Waits until everything written before has been done."""
        _native.call("segment_flush", self._number)


def is_current(view):
    """Whether a view that ``map`` gave still shows the segment's own pages: one that was revoked has left them."""
    current = c_int32()
    _native.call("map_is_current", view.obj.map._number, byref(current))
    return bool(current.value)
