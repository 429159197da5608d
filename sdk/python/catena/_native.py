"""The C interface by ctypes: its functions, its errors, its handles."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

_MAJOR = 1
_UNKNOWN = 7
TIMED_OUT = 3


class Error(Exception):
    """What went wrong; ``name`` is the exception's, ``code`` the C interface's."""

    def __init__(self, code, name, message):
        super().__init__(f"{name}: {message}")
        self.code, self.name, self.message = code, name, message


class UnknownOutcome(Error):
    """Whether it was done is unknown."""


class Bytes(ctypes.Structure):
    """``catena_bytes``."""

    _fields_ = [("bytes", c_char_p), ("count", c_size_t)]


class Part(ctypes.Structure):
    """``catena_part``."""

    _fields_ = [("segment", c_uint64), ("offset", c_uint64), ("count", c_uint64)]


_u64_out, _size_out, _i32_out, _pointer_out = POINTER(c_uint64), POINTER(c_size_t), POINTER(c_int32), POINTER(c_void_p)
_items = [POINTER(Bytes), c_size_t]

# As catena.h has them; each returns int32_t.
_FUNCTIONS = {
    "node_start": [c_char_p, c_char_p, c_char_p, c_uint32, _u64_out],
    "client_connect": [c_char_p, c_char_p, c_uint32, _u64_out],
    "node_address": [c_uint64, c_char_p, c_size_t, _size_out],
    "id": [c_uint64, _u64_out],
    "close": [c_uint64],
    "segment_export": [c_uint64, c_char_p, c_uint64, c_uint32, _u64_out],
    "segment_import": [c_uint64, c_char_p, _u64_out],
    "segment_bytes": [c_uint64, _u64_out],
    "segment_read": [c_uint64, c_uint64, c_void_p, c_size_t],
    "segment_write": [c_uint64, c_uint64, c_void_p, c_size_t],
    "segment_flush": [c_uint64],
    "segment_cas": [c_uint64, c_uint64, c_uint64, c_uint64, _u64_out],
    "segment_allow": [c_uint64, c_uint64, c_uint32],
    "segment_revoke": [c_uint64],
    "segment_map": [c_uint64, c_int32, _pointer_out, _u64_out, _u64_out],
    "map_is_current": [c_uint64, _i32_out],
    "mailbox_open": [c_uint64, c_char_p, _u64_out],
    "receive": [c_uint64, c_uint64, _u64_out],
    "message_from": [c_uint64, c_char_p, c_size_t, _size_out, _u64_out],
    "message_counts": [c_uint64, _size_out, _size_out],
    "message_item": [c_uint64, c_size_t, _pointer_out, _size_out],
    "message_buffer_bytes": [c_uint64, c_size_t, _u64_out],
    "message_buffer_read": [c_uint64, c_size_t, c_uint64, c_void_p, c_size_t],
    "message_answer": [c_uint64, c_void_p, c_size_t, _i32_out],
    "send_short": [c_uint64, c_char_p, c_char_p, *_items],
    "send_long": [c_uint64, c_char_p, *_items, POINTER(Part), c_size_t, c_uint64, _u64_out],
    "ask": [c_uint64, c_char_p, *_items, c_uint64, c_uint64, c_uint64, _u64_out],
    "answer_bytes": [c_uint64, _pointer_out, _size_out, _i32_out],
}


def _load():
    library = ctypes.CDLL(os.environ.get("CATENA_LIBRARY", "libcatena_c.so"))
    library.catena_abi_version.restype = c_uint32
    version = library.catena_abi_version()
    if version >> 16 != _MAJOR:
        raise ImportError(f"libcatena_c has version {version >> 16} of its interface, and this package needs {_MAJOR}")
    for name in ("last_error", "last_error_name"):
        getattr(library, f"catena_{name}").restype = c_char_p
    for name, parameters in _FUNCTIONS.items():
        function = getattr(library, f"catena_{name}")
        function.restype, function.argtypes = c_int32, parameters
    return library


_library = _load()


def call(name, *arguments):
    """Calls a function, and raises what went wrong. ctypes lets other threads run meanwhile."""
    code = getattr(_library, f"catena_{name}")(*arguments)
    if code != 0:
        kind = UnknownOutcome if code == _UNKNOWN else Error
        raise kind(code, _library.catena_last_error_name().decode(), _library.catena_last_error().decode())


def made(name, *arguments):
    """Calls a function whose last parameter is set to a number; returns that."""
    number = c_uint64()
    call(name, *arguments, byref(number))
    return number.value


def text(name, handle, *more):
    """Calls a function that copies text out."""
    room = ctypes.create_string_buffer(4096)
    call(name, handle, room, len(room), None, *more)
    return room.value.decode()


def items(given):
    """Items for a message."""
    copies = [bytes(item) for item in given]
    array = (Bytes * len(copies))(*[Bytes(copy, len(copy)) for copy in copies])
    return array, len(copies)


class Handle:
    """Something that C holds; it is closed with its last use, or by ``close`` or ``with``."""

    _number = 0

    def __init__(self, number):
        self._number = number

    def close(self):
        """Lets go of it. A second time does nothing."""
        number, self._number = self._number, 0
        if number:
            call("close", number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # Nobody can be told here.
            pass
