/* LINK: wire base */
/* JSON messages between nodes and routers: joins, heartbeats, and the answers to them. */
#include <stdint.h>
#include <stdlib.h>

#include "wire/fleet.h"
#include "wire/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A parsed message can be written and parsed again, with the same content. */
static void read_replies(struct lr_arena *arena, struct lr_str text)
{
    struct wire_fleet_reply reply, reply2;
    struct wire_registry list, list2;
    struct lr_buf out;
    lr_buf_init(&out, 64 << 20);
    if (wire_fleet_reply_parse(arena, text, &reply, NULL) == LR_OK) {
        wire_fleet_reply_write(&out, &reply);
        if (out.failed ||
            (wire_fleet_reply_parse(arena, lr_buf_str(&out), &reply2, NULL) == LR_OK &&
             (reply2.must_join != reply.must_join ||
              reply2.router_count != reply.router_count ||
              reply2.registry_version != reply.registry_version)))
            abort();
    }
    lr_buf_clear(&out);
    if (wire_registry_parse(arena, text, &list, NULL) == LR_OK) {
        wire_registry_write(&out, &list);
        if (out.failed ||
            (wire_registry_parse(arena, lr_buf_str(&out), &list2, NULL) == LR_OK &&
             (list2.count != list.count || list2.version != list.version)))
            abort();
    }
    lr_buf_free(&out);
    (void)wire_refusal_message(arena, text);
    (void)wire_health_epoch(arena, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_arena arena;
    struct wire_join join;
    struct wire_heartbeat heartbeat;
    struct lr_error err = {0};
    struct lr_str text = {(const char *)data, size};
    lr_arena_init(&arena, 8 << 20);
    lr_code code = wire_join_parse(&arena, text, &join, &err);
    if (code == LR_OK) {
        /* A parsed message can be written and parsed again. */
        struct lr_buf out;
        struct wire_join again;
        lr_buf_init(&out, 32 << 20);
        wire_join_write(&out, &join);
        if (out.failed || join.node_id.ptr == NULL ||
            wire_join_parse(&arena, lr_buf_str(&out), &again, &err) != LR_OK)
            abort();
        lr_buf_free(&out);
    } else if (err.text[0] == '\0') {
        abort();
    }
    read_replies(&arena, text);
    const struct lr_json *tree;
    bool is_object =
        lr_json_parse(&arena, text, NULL, &tree, NULL) == LR_OK && tree->type == LR_JSON_OBJECT;
    code = wire_heartbeat_parse(&arena, text, &heartbeat, &err);
    /* A wrong member of a heartbeat never costs the whole message. */
    if (is_object ? code != LR_OK && code != LR_OUT_OF_RAM && code != LR_TOO_LARGE
                  : code == LR_OK)
        abort();
    for (size_t i = 0; code == LR_OK && i < heartbeat.model_count; i++)
        if (heartbeat.models[i].id.len == 0 || heartbeat.models[i].slots > WIRE_FLEET_SLOTS_MAX)
            abort();
    lr_arena_free(&arena);
    return 0;
}
