"""Messages between service IDs."""

import ctypes
from ctypes import byref, c_int32, c_size_t, c_void_p

from . import _native

SHORT, RETURNED, LONG = 0, 1, 2


class Mailbox(_native.Handle):
    """Where the messages of a service ID arrive."""

    def receive(self, timeout_ms=10_000):
        """The next message; None if none came in time."""
        try:
            return Message(_native.made("receive", self._number, timeout_ms))
        except _native.Error as why:
            if why.code == _native.TIMED_OUT:
                return None
            raise

    def send_long(self, to, *items, parts=(), lasts_ms=10_000):
        """Sends parts of segments, each (segment, offset, count), to be read where they lie."""
        array, count = _native.items(items)
        all_parts = [_native.Part(segment._number, offset, size) for segment, offset, size in parts]
        there = (_native.Part * len(all_parts))(*all_parts)
        _native.call("send_long", self._number, to.encode(), array, count, there, len(all_parts), lasts_ms, None)


class Message(_native.Handle):
    """A message that came. Closed, it tells its sender that its buffers are not needed any more."""

    @property
    def sender(self):
        """The service that sent it."""
        return _native.text("message_from", self._number, None)

    @property
    def items(self):
        """Its items."""
        count = c_size_t()
        _native.call("message_counts", self._number, byref(count), None)
        return [self._item(index) for index in range(count.value)]

    def _item(self, index):
        first, count = c_void_p(), c_size_t()
        _native.call("message_item", self._number, index, byref(first), byref(count))
        return ctypes.string_at(first, count.value)

    def buffers(self):
        """How many bytes each of its buffers has."""
        count = c_size_t()
        _native.call("message_counts", self._number, None, byref(count))
        return [_native.made("message_buffer_bytes", self._number, index) for index in range(count.value)]

    def read(self, index, offset, count):
        """Reads a part of a buffer from its sender."""
        out = ctypes.create_string_buffer(count)
        _native.call("message_buffer_read", self._number, index, offset, out, count)
        return out.raw

    def answer(self, data):
        """Answers it; returns the way that the answer took: SHORT, RETURNED or LONG."""
        data, carrier = bytes(data), c_int32()
        _native.call("message_answer", self._number, data, len(data), byref(carrier))
        return carrier.value


class Answer(_native.Handle):
    """An answer; ``bytes(answer)`` copies it."""

    def __bytes__(self):
        first, count = c_void_p(), c_size_t()
        _native.call("answer_bytes", self._number, byref(first), byref(count), None)
        return ctypes.string_at(first, count.value)
