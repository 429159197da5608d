"""The package against a node of another process, whose address is the first argument. Run by sdk/c/tests/c.rs, with the library that it has built."""

import ctypes
import gc
import sys
import threading
import time
import unittest

import catena
import numpy

ADDRESS = sys.argv.pop(1)


def address_of(view):
    """Where a memoryview's first byte is."""
    return ctypes.addressof(ctypes.c_ubyte.from_buffer(view))


class Segments(unittest.TestCase):
    def test_a_segment_is_a_memoryview_of_its_own_pages(self):
        with catena.Node("python", join=ADDRESS) as node, node.export("own", 1 << 20, catena.READ) as own:
            view, again = own.map(), own.map()
            self.assertEqual((view.nbytes, view.format, view.readonly), (1 << 20, "B", False))
            self.assertEqual(address_of(view), address_of(again), "two views are of the same bytes")
            part = view[4096:8192].cast("d")
            self.assertEqual(ctypes.addressof(ctypes.c_double.from_buffer(part)), address_of(view) + 4096)
            part[0] = 3.25
            self.assertEqual(again[4096:8192].cast("d")[0], 3.25)
            # Another importer reads what was written in place.
            with catena.Client(ADDRESS) as client:
                far = client.import_segment(f"{node.address}/own")
                seen = far.map()
                self.assertTrue(seen.readonly)
                view[0:5] = b"hello"
                self.assertEqual((bytes(seen[0:5]), seen[4096:8192].cast("d")[0]), (b"hello", 3.25))
                self.assertTrue(catena.is_current(seen))
                own.revoke()
                self.assertFalse(catena.is_current(seen))
                self.assertEqual(bytes(seen[0:5]), b"hello", "a view outlives the segment")

    def test_pages_stay_mapped_as_long_as_a_view_is_used(self):
        with catena.Node("python") as node:
            own = node.export("own", 1 << 16)
            slice_of_it = own.map()[100:200]
            own.close()
            gc.collect()
            slice_of_it[0] = 7
            self.assertEqual(slice_of_it[0], 7)

    def test_a_view_costs_the_same_whatever_its_size(self):
        with catena.Node("python") as node:
            def best(size):
                with node.export(f"size {size}", size) as segment:
                    segment.map()
                    times = []
                    for _ in range(50):
                        began = time.perf_counter()
                        segment.map()
                        times.append(time.perf_counter() - began)
                    return min(times)
            small, large = best(4096), best(128 << 20)
            # A copy of 128 MiB takes tens of milliseconds.
            self.assertLess(large, small + 0.01)

    def test_the_other_process_is_read_and_written_in_place(self):
        with catena.Client(ADDRESS) as client, client.import_segment(f"{ADDRESS}/shared") as far:
            self.assertEqual(far.read(0, 9), b"from rust")
            view = far.map(write=True)
            self.assertEqual(bytes(view[:9]), b"from rust")
            view[200:211] = b"from python"
            self.assertEqual(far.read(200, 11), b"from python")
            self.assertEqual((far.cas(16384, 0, 5), far.cas(16384, 0, 6)), (0, 5))


class NumPy(unittest.TestCase):
    def test_an_array_is_of_the_very_bytes(self):
        with catena.Node("python") as node, node.export("array", 8 * 1000, catena.READ) as own:
            view = own.map()
            array = numpy.frombuffer(view, dtype=numpy.float64)
            self.assertEqual((array.ctypes.data, array.shape), (address_of(view), (1000,)))
            array[:] = numpy.arange(1000)
            with catena.Client(ADDRESS) as client:
                seen = numpy.frombuffer(client.import_segment(f"{node.address}/array").map(), dtype=numpy.float64)
                self.assertFalse(seen.flags.writeable)
                self.assertEqual(seen.sum(), 499_500)
                array[999] = 0
                self.assertEqual(seen.sum(), 498_501, "what is put there is seen here")


class Messages(unittest.TestCase):
    def test_questions_are_answered_by_every_way(self):
        with catena.Client(ADDRESS) as client:
            self.assertEqual(bytes(client.ask("echo", b"a", b"b")), b"ab")
            with self.assertRaises(catena.Error) as failed:
                client.ask("nobody", b"", timeout_ms=1000)
            self.assertEqual(failed.exception.name, "UnknownService")

    def test_mailboxes_take_short_and_long_messages(self):
        with catena.Node("python", join=ADDRESS) as node, node.mailbox("py in") as inbox, node.mailbox("py out") as outbox:
            self.assertIsNone(inbox.receive(timeout_ms=1))
            node.send("py in", b"one", b"", sender="py out")
            message = inbox.receive()
            self.assertEqual((message.sender, message.items), ("py out", [b"one", b""]))
            with node.export("catalogue", 100_000) as own:
                own.write(50_000, b"middle")
                outbox.send_long("py in", b"head", parts=[(own, 50_000, 1_000)])
                long = inbox.receive()
                self.assertEqual((long.items, long.buffers(), long.read(0, 0, 6)), ([b"head"], [1_000], b"middle"))
            asked = []
            asking = threading.Thread(target=lambda: asked.append(bytes(node.ask("py in", b"?", bytes_max=1 << 20))))
            asking.start()
            inbox.receive().answer(b"x" * 50_000)
            asking.join()
            self.assertEqual(asked, [b"x" * 50_000])


class Misuse(unittest.TestCase):
    def test_what_is_closed_is_refused(self):
        node = catena.Node("python")
        segment = node.export("own", 8)
        segment.close()
        segment.close()
        with self.assertRaises(catena.Error) as failed:
            segment.read(0, 1)
        self.assertEqual(failed.exception.name, "BadHandle")
        with self.assertRaises(catena.Error):
            node.export("own", 8).read(1, 8)
        node.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
