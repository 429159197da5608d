/* The C interface of Catena. Made by `xtask header` of sdk/c/src: change it there.
 *
 * Every function that returns int32_t returns CATENA_OK or why it failed; catena_last_error() says more. Handles are numbers that are never used again; 0 is none.
 * Functions block, and may be called from any thread. A handle may be used by several threads at once. */
#ifndef CATENA_H
#define CATENA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The upper half rises when a program that was compiled before does not work any more, the lower one when something is new. */
#define CATENA_ABI_VERSION ((1 << 16) + 1)

/* It is done. */
#define CATENA_OK (0)

/* An argument is not what it has to be: a null pointer, no UTF-8, a number that means nothing. */
#define CATENA_BAD_ARGUMENT (1)

/* There is no such handle, or it is of another kind. */
#define CATENA_BAD_HANDLE (2)

/* Nothing came in the time that was given. */
#define CATENA_TIMED_OUT (3)

/* What there is is longer than the memory that was given for it; its length was set. */
#define CATENA_TOO_SMALL (4)

/* An exception of Catena's: catena_last_error_name() says which. */
#define CATENA_EXCEPTION (5)

/* The library itself is at fault. */
#define CATENA_PANICKED (6)

/* As CATENA_EXCEPTION, and whether it was done is unknown. */
#define CATENA_UNKNOWN (7)

/* The version of this interface: CATENA_ABI_VERSION of the header that it was compiled with. A program should check that the upper half is the one of its own header. */
uint32_t catena_abi_version(void);

/* What the last call of this thread that failed says, for people: what happened, to what, and what to do next. It is valid until the thread's next call. */
const char *catena_last_error(void);

/* The name of that error, for programs: an exception's, as `UnknownSegment`. It is valid until the thread's next call. */
const char *catena_last_error_name(void);

/* Some bytes of the caller's. */
typedef struct catena_bytes {
    /* The first. */
    const void *bytes;
    /* How many. */
    size_t count;
} catena_bytes;

/* A part of a segment of this process. */
typedef struct catena_part {
    /* A segment's handle. */
    uint64_t segment;
    /* From this byte on. */
    uint64_t offset;
    /* So many bytes. */
    uint64_t count;
} catena_part;

/* Shares no memory with others on this host, for tests and comparisons. */
#define CATENA_WITHOUT_SHARED_MEMORY (1)

/* Starts a node. `name` is for people; `listen` is HOST:PORT, port 0 lets the system choose; `join` is another node's address, or null. `flags`: 0, or CATENA_WITHOUT_SHARED_MEMORY.
 * Texts are null or end in a zero; `node` points to a handle. */
int32_t catena_node_start(const char *name, const char *listen, const char *join, uint32_t flags, uint64_t *node);

/* Connects a client to a node, by its address, and through it to all that it knows of. `flags` as of catena_node_start().
 * Texts are null or end in a zero; `client` points to a handle. */
int32_t catena_client_connect(const char *name, const char *address, uint32_t flags, uint64_t *client);

/* Where a node is reached. `length` (it may be null) is set to the text's length even where there is no room for it.
 * `out` has room for `capacity` bytes. */
int32_t catena_node_address(uint64_t node, char *out, size_t capacity, size_t *length);

/* The number of this run of a node or client: what owners of segments give rights to.
 * `id` points to a number. */
int32_t catena_id(uint64_t party, uint64_t *id);

/* Closes any handle: a node stops, a segment that nothing else holds is not exported any more, a map is unmapped, the sender of a message learns that it is read.
 * A second time is CATENA_BAD_HANDLE, and harmless. */
int32_t catena_close(uint64_t handle);

/* Others may read. */
#define CATENA_READ (1)

/* Others may write. */
#define CATENA_WRITE (2)

/* Others may compare and swap words. */
#define CATENA_CAS (4)

/* Exports so many bytes of zeros from a node by a name; `anyone`: what everybody may do, of CATENA_READ, CATENA_WRITE and CATENA_CAS.
 * `name` is null or ends in a zero; `segment` points to a handle. */
int32_t catena_segment_export(uint64_t node, const char *name, uint64_t bytes, uint32_t anyone, uint64_t *segment);

/* Imports a segment by OWNER/NAME: the owner by its own name, by a service that it serves, or by its address.
 * `name` is null or ends in a zero; `segment` points to a handle. */
int32_t catena_segment_import(uint64_t party, const char *name, uint64_t *segment);

/* The size of a segment, exported or imported, in bytes.
 * `bytes` points to a number. */
int32_t catena_segment_bytes(uint64_t segment, uint64_t *bytes);

/* Who owns a segment, exported or imported: the catena_id() of that run of a node.
 * `node` points to a number. */
int32_t catena_segment_owner(uint64_t segment, uint64_t *node);

/* Copies `count` bytes from `offset` on into `out`. Aligned words of 8 bytes are read whole.
 * `out` has room for `count` bytes. */
int32_t catena_segment_read(uint64_t segment, uint64_t offset, void *out, size_t count);

/* Copies `count` bytes to `offset`. Into an imported segment they are taken when this returns; catena_segment_flush() says that they are there.
 * `bytes` points to `count` bytes. */
int32_t catena_segment_write(uint64_t segment, uint64_t offset, const void *bytes, size_t count);

/* Waits until everything that was written to an imported segment has been done. */
int32_t catena_segment_flush(uint64_t segment);

/* Puts `desired` in the place of the aligned word of 8 bytes at `offset` if that is `expected`; `was` is set to what was there: `expected` if it was done.
 * `was` points to a number. */
int32_t catena_segment_cas(uint64_t segment, uint64_t offset, uint64_t expected, uint64_t desired, uint64_t *was);

/* Gives one importer, by its catena_id(), rights of its own, in the place of what everybody may do. */
int32_t catena_segment_allow(uint64_t exported, uint64_t importer, uint32_t bits);

/* Takes a segment back: when this returns no byte of it is read or changed by others any more. */
int32_t catena_segment_revoke(uint64_t exported);

/* Says where a segment's bytes lie, to be read and, if `write` is not 0, written in place, without a copy: of one's own always, of an imported one where its memory is shared with this process
 * (`NoRight` else). The address is good until `map` is closed, whatever becomes of the segment. Others may change the bytes at any time. A write to what was not mapped for writing faults.
 * `address`, `bytes` and `map` point to what they are set to. */
int32_t catena_segment_map(uint64_t segment, int32_t write, void **address, uint64_t *bytes, uint64_t *map);

/* Whether a map still shows the segment's own pages: `current` is set to 1 or 0. A segment that was revoked, or whose rights changed, has left them: map it anew.
 * `current` points to a number. */
int32_t catena_map_is_current(uint64_t map, int32_t *current);

/* An answer that came in one frame. */
#define CATENA_SHORT (0)

/* One that its server wrote into the return buffer. */
#define CATENA_RETURNED (1)

/* One that was read from its server. */
#define CATENA_LONG (2)

/* Takes messages for a service ID from now on. Whoever sends finds it wherever it is.
 * `service` is null or ends in a zero; `mailbox` points to a handle. */
int32_t catena_mailbox_open(uint64_t party, const char *service, uint64_t *mailbox);

/* Waits for the next message, so many milliseconds: CATENA_TIMED_OUT if none came.
 * `message` points to a handle. */
int32_t catena_receive(uint64_t from, uint64_t timeout_ms, uint64_t *message);

/* As catena_receive(), with what there is to know of the message in one call: `node` (it may be null) as of catena_message_from(), and its items, of which the first `capacity` are put to `all`,
 * where they stay until the message is closed; `count` is set to how many it has.
 * `message` points to a handle; `all` has room for `capacity` items; `node` and `count` are null or point to numbers. */
int32_t catena_receive_items(uint64_t from, uint64_t timeout_ms, uint64_t *message, uint64_t *node, catena_bytes *all, size_t capacity, size_t *count);

/* The service that sent a message; empty: one that takes none. `node` (it may be null) is set to the catena_id() of where it came from.
 * `out` has room for `capacity` bytes; `length` and `node` are null or point to numbers. */
int32_t catena_message_from(uint64_t from, char *out, size_t capacity, size_t *length, uint64_t *node);

/* How many items and buffers a message has. Both may be null.
 * `items` and `buffers` are null or point to numbers. */
int32_t catena_message_counts(uint64_t of, size_t *items, size_t *buffers);

/* An item of a message. The bytes stay where they are until the message is closed.
 * `bytes` and `count` point to what they are set to. */
int32_t catena_message_item(uint64_t of, size_t index, const void **bytes, size_t *count);

/* How many bytes a buffer of a long message has, as its sender says.
 * `bytes` points to a number. */
int32_t catena_message_buffer_bytes(uint64_t of, size_t index, uint64_t *bytes);

/* Reads so many bytes of a buffer, from `offset` on, from its sender.
 * `out` has room for `count` bytes. */
int32_t catena_message_buffer_read(uint64_t of, size_t index, uint64_t offset, void *out, size_t count);

/* Answers a message: in one frame if the answer fits, else in the asker's return buffer, else left here to be read. `carrier` (it may be null) is set to CATENA_SHORT, CATENA_RETURNED or CATENA_LONG.
 * `bytes` points to `count` bytes; `carrier` is null or points to a number. */
int32_t catena_message_answer(uint64_t to, const void *bytes, size_t count, int32_t *carrier);

/* Sends a short message of at most 64 items of 12 KiB together, which may be lost. `from` is the service ID that it comes from; it may be empty.
 * Texts are null or end in a zero; `all` points to `count` items. */
int32_t catena_send_short(uint64_t party, const char *from, const char *to, const catena_bytes *all, size_t count);

/* Sends a long message from a mailbox: items that come with it, and up to 16 parts of segments, which stay where they are and are read when the receiver likes, for `lasts_ms` at most.
 * `sent` may be null; else it is a handle for catena_sent_wait().
 * `to` is null or ends in a zero; `all` points to `count` items, `parts` to `part_count` parts; `sent` is null or points to a handle. */
int32_t catena_send_long(uint64_t from, const char *to, const catena_bytes *all, size_t count, const catena_part *parts, size_t part_count, uint64_t lasts_ms, uint64_t *sent);

/* Waits until a long message was read, or its time is over (CATENA_UNKNOWN). Once. */
int32_t catena_sent_wait(uint64_t sent);

/* Asks a service, and waits so many milliseconds for its answer, of at most `bytes_max` bytes; `room` is the size of the return buffer, 0: none.
 * `to` is null or ends in a zero; `all` points to `count` items; `answer` points to a handle. */
int32_t catena_ask(uint64_t party, const char *to, const catena_bytes *all, size_t count, uint64_t room, uint64_t bytes_max, uint64_t timeout_ms, uint64_t *answer);

/* The bytes of an answer, which stay where they are until it is closed, and how it came (`carrier` may be null).
 * `bytes` and `count` point to what they are set to; `carrier` is null or points to a number. */
int32_t catena_answer_bytes(uint64_t answer, const void **bytes, size_t *count, int32_t *carrier);

/* Who answered: its catena_id(); 0: it wrote into the return buffer, which does not say who it was.
 * `node` points to a number. */
int32_t catena_answer_from(uint64_t answer, uint64_t *node);

#ifdef __cplusplus
}
#endif

#endif
