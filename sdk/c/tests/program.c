/* Uses all of the interface against the node whose address it is given, and uses it wrong. */
#include "catena.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s (last error: %s: %s)\n", __FILE__, __LINE__, #what, catena_last_error_name(),   \
                    catena_last_error());                                                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == CATENA_OK)

static void segments(uint64_t client, uint64_t node, const char *there, const char *here) {
    char name[128], text[16] = {0};
    uint64_t far, own, mine, bytes, was, map, own_map, id;
    void *address, *again;
    int32_t current;
    snprintf(name, sizeof name, "%s/shared", there);
    OK(catena_segment_import(client, name, &far));
    OK(catena_segment_bytes(far, &bytes));
    CHECK(bytes == 1 << 16);
    OK(catena_segment_read(far, 0, text, 9));
    CHECK(strcmp(text, "from rust") == 0);
    OK(catena_segment_cas(far, 8192, 0, 7, &was));
    CHECK(was == 0);
    OK(catena_segment_cas(far, 8192, 0, 8, &was));
    CHECK(was == 7);
    OK(catena_segment_write(far, 4096, "far", 3));
    OK(catena_segment_flush(far));
    /* In place: what the other process wrote, and what it will find. */
    OK(catena_segment_map(far, 1, &address, &bytes, &map));
    CHECK(bytes == 1 << 16 && memcmp(address, "from rust", 9) == 0 && memcmp((char *)address + 4096, "far", 3) == 0);
    memcpy((char *)address + 100, "from c", 6);
    OK(catena_map_is_current(map, &current));
    CHECK(current == 1);
    /* One's own, seen by another importer without a copy between. */
    OK(catena_segment_export(node, "own", 100000, CATENA_READ, &own));
    OK(catena_segment_map(own, 1, &again, &bytes, &own_map));
    strcpy(again, "in place");
    snprintf(name, sizeof name, "%s/own", here);
    OK(catena_segment_import(client, name, &mine));
    OK(catena_segment_read(mine, 0, text, 9));
    CHECK(strcmp(text, "in place") == 0);
    OK(catena_map_is_current(own_map, &current));
    CHECK(current == 1);
    CHECK(catena_segment_write(mine, 0, "x", 1) == CATENA_OK && catena_segment_flush(mine) == CATENA_EXCEPTION);
    CHECK(strcmp(catena_last_error_name(), "NoRight") == 0);
    /* Rights of its own for one importer: it may write, and then not even read. */
    OK(catena_id(client, &id));
    OK(catena_segment_allow(own, id, CATENA_READ | CATENA_WRITE));
    OK(catena_segment_write(mine, 100, "allowed", 8));
    OK(catena_segment_flush(mine));
    OK(catena_segment_read(own, 100, text, 8));
    CHECK(strcmp(text, "allowed") == 0);
    OK(catena_segment_allow(own, id, 0));
    CHECK(catena_segment_read(mine, 0, text, 8) == CATENA_EXCEPTION);
    CHECK(strcmp(catena_last_error_name(), "NoRight") == 0);
    OK(catena_segment_allow(own, id, CATENA_READ));
    OK(catena_segment_read(mine, 0, text, 9));
    CHECK(strcmp(text, "in place") == 0);
    CHECK(catena_segment_allow(own, id, 99) == CATENA_BAD_ARGUMENT);
    CHECK(catena_segment_allow(mine, id, CATENA_READ) == CATENA_BAD_HANDLE);
    OK(catena_segment_revoke(own));
    OK(catena_map_is_current(own_map, &current));
    CHECK(current == 0 && memcmp(again, "in place", 9) == 0);
    CHECK(catena_segment_read(mine, 0, text, 9) == CATENA_EXCEPTION);
    OK(catena_close(own_map));
    OK(catena_close(map));
    OK(catena_close(mine));
    OK(catena_close(own));
    OK(catena_close(far));
}

/* Answers three questions: in one frame, into the return buffer, and by leaving the answer here. */
static void *answers(void *mailbox) {
    static char large[50000];
    const size_t counts[] = {3, sizeof large, sizeof large};
    const int32_t carriers[] = {CATENA_SHORT, CATENA_RETURNED, CATENA_LONG};
    uint64_t inbox = *(uint64_t *)mailbox, message;
    int32_t carrier;
    memset(large, 'y', sizeof large);
    for (int at = 0; at < 3; at++) {
        OK(catena_receive(inbox, 10000, &message));
        CHECK(catena_message_answer(message, NULL, 1, &carrier) == CATENA_BAD_ARGUMENT);
        OK(catena_message_answer(message, large, counts[at], &carrier));
        CHECK(carrier == carriers[at]);
        OK(catena_close(message));
        CHECK(catena_message_answer(message, large, 1, NULL) == CATENA_BAD_HANDLE);
    }
    return NULL;
}

static void answered(uint64_t client, uint64_t node) {
    const size_t counts[] = {3, 50000, 50000};
    const uint64_t rooms[] = {0, 50000, 0};
    uint64_t inbox, answer, from, id;
    const void *bytes;
    size_t count;
    int32_t carrier;
    pthread_t thread;
    OK(catena_mailbox_open(node, "answers", &inbox));
    CHECK(pthread_create(&thread, NULL, answers, &inbox) == 0);
    OK(catena_id(node, &id));
    for (int at = 0; at < 3; at++) {
        /* The client, which is not linked with the node, hears of a mailbox a moment after it is opened. */
        int32_t asked;
        int tries = 0;
        do asked = catena_ask(client, "answers", NULL, 0, rooms[at], 50000, 10000, &answer);
        while (asked == CATENA_EXCEPTION && strcmp(catena_last_error_name(), "UnknownService") == 0 && tries++ < 10000);
        OK(asked);
        OK(catena_answer_bytes(answer, &bytes, &count, &carrier));
        CHECK(count == counts[at] && ((const char *)bytes)[count - 1] == 'y');
        /* Who wrote into the return buffer is not known. */
        OK(catena_answer_from(answer, &from));
        CHECK(from == (rooms[at] ? 0 : id));
        OK(catena_close(answer));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(catena_close(inbox));
}

static void messages(uint64_t client, uint64_t node) {
    uint64_t inbox, outbox, message, answer, sent, own, id, from;
    size_t count, items, buffers;
    const void *bytes;
    int32_t carrier;
    char text[64];
    static char large[300000];
    memset(large, 'x', sizeof large);
    catena_bytes two[] = {{"one", 3}, {"two", 3}}, much = {large, 8000};
    /* To the other process. */
    OK(catena_ask(client, "echo", two, 2, 0, 1000, 10000, &answer));
    OK(catena_answer_bytes(answer, &bytes, &count, &carrier));
    CHECK(count == 6 && memcmp(bytes, "onetwo", 6) == 0 && carrier == CATENA_SHORT);
    OK(catena_answer_from(answer, &from));
    CHECK(from != 0);
    OK(catena_close(answer));
    CHECK(catena_ask(client, "echo", two, 2, 0, 5, 10000, &answer) == CATENA_TOO_SMALL);
    CHECK(catena_ask(client, "nobody", two, 2, 0, 5, 1000, &answer) == CATENA_EXCEPTION);
    CHECK(strcmp(catena_last_error_name(), "UnknownService") == 0);
    /* Between two service IDs here. */
    OK(catena_mailbox_open(node, "inbox", &inbox));
    OK(catena_mailbox_open(client, "outbox", &outbox));
    CHECK(catena_mailbox_open(node, "inbox", &message) == CATENA_EXCEPTION);
    CHECK(catena_receive(inbox, 1, &message) == CATENA_TIMED_OUT);
    OK(catena_send_short(client, "outbox", "inbox", &much, 1));
    OK(catena_receive(inbox, 10000, &message));
    OK(catena_message_from(message, text, sizeof text, &count, &from));
    OK(catena_id(client, &id));
    CHECK(strcmp(text, "outbox") == 0 && count == 6 && from == id);
    CHECK(catena_message_from(message, text, 6, &count, NULL) == CATENA_TOO_SMALL && count == 6);
    OK(catena_message_counts(message, &items, &buffers));
    CHECK(items == 1 && buffers == 0);
    OK(catena_message_item(message, 0, &bytes, &count));
    CHECK(count == 8000 && memcmp(bytes, large, count) == 0);
    CHECK(catena_message_item(message, 1, &bytes, &count) == CATENA_BAD_ARGUMENT);
    OK(catena_close(message));
    /* All that there is to know of a message in one call. */
    catena_bytes came[1];
    CHECK(catena_receive_items(inbox, 1, &message, &from, came, 1, &count) == CATENA_TIMED_OUT);
    OK(catena_send_short(client, "outbox", "inbox", two, 2));
    OK(catena_receive_items(inbox, 10000, &message, &from, came, 1, &count));
    CHECK(count == 2 && from == id && came[0].count == 3 && memcmp(came[0].bytes, "one", 3) == 0);
    OK(catena_close(message));
    /* A part of a segment, read where it lies. */
    OK(catena_segment_export(node, "catalogue", sizeof large, 0, &own));
    OK(catena_segment_write(own, 0, large, sizeof large));
    catena_part part = {own, 10, sizeof large - 10};
    OK(catena_send_long(inbox, "outbox", two, 2, &part, 1, 10000, &sent));
    OK(catena_receive(outbox, 10000, &message));
    OK(catena_message_counts(message, &items, &buffers));
    CHECK(items == 2 && buffers == 1);
    uint64_t size;
    OK(catena_message_buffer_bytes(message, 0, &size));
    CHECK(size == sizeof large - 10);
    static char read[sizeof large];
    OK(catena_message_buffer_read(message, 0, 0, read, size));
    CHECK(memcmp(read, large, size) == 0);
    CHECK(catena_message_buffer_read(message, 0, 1, read, size) == CATENA_EXCEPTION);
    CHECK(catena_message_buffer_read(message, 1, 0, read, 1) == CATENA_BAD_ARGUMENT);
    OK(catena_close(message));
    OK(catena_sent_wait(sent));
    CHECK(catena_sent_wait(sent) == CATENA_BAD_ARGUMENT);
    OK(catena_close(sent));
    OK(catena_close(own));
    OK(catena_close(inbox));
    OK(catena_close(outbox));
}

static void wrong(uint64_t client, uint64_t node) {
    uint64_t handle;
    char text[8];
    void *address;
    CHECK(catena_close(0) == CATENA_BAD_HANDLE && catena_close(UINT64_MAX) == CATENA_BAD_HANDLE);
    CHECK(catena_segment_bytes(node, &handle) == CATENA_BAD_HANDLE);
    CHECK(strstr(catena_last_error(), "is a node, and a segment is wanted") != NULL);
    CHECK(catena_node_address(client, text, sizeof text, NULL) == CATENA_BAD_HANDLE);
    CHECK(catena_node_address(node, NULL, 0, NULL) == CATENA_TOO_SMALL);
    CHECK(catena_node_address(node, NULL, 10, NULL) == CATENA_BAD_ARGUMENT);
    CHECK(catena_segment_import(client, NULL, &handle) == CATENA_BAD_ARGUMENT);
    CHECK(catena_segment_import(client, "\xff\xfe", &handle) == CATENA_BAD_ARGUMENT);
    CHECK(catena_segment_import(client, "nobody at all/x", &handle) == CATENA_EXCEPTION);
    CHECK(catena_segment_export(node, "a", 8, 99, &handle) == CATENA_BAD_ARGUMENT);
    CHECK(catena_segment_export(node, "a", UINT64_MAX, 1, &handle) == CATENA_EXCEPTION);
    CHECK(catena_segment_export(node, "", 8, 1, &handle) == CATENA_EXCEPTION);
    CHECK(catena_segment_export(node, "a", 8, 1, NULL) == CATENA_BAD_ARGUMENT);
    OK(catena_segment_export(node, "a", 8, 1, &handle));
    CHECK(catena_segment_read(handle, 1, text, 8) == CATENA_EXCEPTION);
    CHECK(catena_segment_read(handle, UINT64_MAX, text, 8) == CATENA_EXCEPTION);
    CHECK(catena_segment_read(handle, 0, NULL, 8) == CATENA_BAD_ARGUMENT);
    CHECK(catena_segment_write(handle, 0, text, SIZE_MAX) == CATENA_BAD_ARGUMENT);
    OK(catena_segment_read(handle, 8, NULL, 0));
    CHECK(catena_segment_flush(handle) == CATENA_BAD_HANDLE);
    CHECK(catena_segment_map(handle, 0, &address, NULL, NULL) == CATENA_BAD_ARGUMENT);
    CHECK(catena_send_short(client, "", "echo", NULL, 1) == CATENA_BAD_ARGUMENT);
    catena_bytes bad = {NULL, 5};
    CHECK(catena_send_short(client, "", "echo", &bad, 1) == CATENA_BAD_ARGUMENT);
    CHECK(catena_client_connect("c", "127.0.0.1:1", 0, &handle) == CATENA_EXCEPTION);
    CHECK(catena_client_connect("c", "127.0.0.1:1", 128, &handle) == CATENA_BAD_ARGUMENT);
    CHECK(catena_node_start("n", "no address", NULL, 0, &handle) != CATENA_OK);
}

int main(int argc, char **argv) {
    uint64_t node, client, far;
    char here[64];
    size_t length;
    CHECK(argc == 2);
    CHECK(catena_abi_version() == CATENA_ABI_VERSION);
    OK(catena_node_start("c", "127.0.0.1:0", argv[1], 0, &node));
    OK(catena_node_address(node, here, sizeof here, &length));
    CHECK(strlen(here) == length);
    OK(catena_client_connect("c client", argv[1], 0, &client));
    segments(client, node, argv[1], here);
    messages(client, node);
    answered(client, node);
    wrong(client, node);
    /* Without shared memory there is nothing to map, and everything else is the same. */
    uint64_t apart, map, bytes;
    void *address;
    char name[128], text[16] = {0};
    OK(catena_client_connect("apart", argv[1], CATENA_WITHOUT_SHARED_MEMORY, &apart));
    snprintf(name, sizeof name, "%s/shared", argv[1]);
    OK(catena_segment_import(apart, name, &far));
    CHECK(catena_segment_map(far, 0, &address, &bytes, &map) == CATENA_EXCEPTION);
    OK(catena_segment_read(far, 0, text, 9));
    CHECK(strcmp(text, "from rust") == 0);
    uint64_t owner, id;
    OK(catena_segment_owner(far, &owner));
    OK(catena_id(apart, &id));
    CHECK(owner != 0 && owner != id);
    snprintf(name, sizeof name, "%s/secret", argv[1]);
    CHECK(catena_segment_import(apart, name, &far) == CATENA_EXCEPTION);
    CHECK(strcmp(catena_last_error_name(), "UnknownSegment") == 0);
    OK(catena_close(apart));
    OK(catena_close(client));
    OK(catena_close(node));
    CHECK(catena_close(node) == CATENA_BAD_HANDLE);
    printf("all of it\n");
    return 0;
}
