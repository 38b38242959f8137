#include "router/handover/message.h"

#include "base/json.h"

static bool message_read_flag(const struct lr_json *v, const char *key)
{
    bool value;
    return lr_json_bool(lr_json_get(v, key), &value) && value;
}

static void read_listener(const struct lr_json *v, struct net_listeners *out)
{
    struct net_listener l = {.fd = -1, .is_shared = message_read_flag(v, "shared")};
    struct lr_str host;
    uint64_t port;
    if (out->count == NET_LISTENERS_MAX || !lr_json_str(lr_json_get(v, "host"), &host) ||
        !lr_json_u64(lr_json_get(v, "port"), &port) || port > 65535)
        return;
    LR_COPY(l.host, host);
    l.port = (uint16_t)port;
    out->all[out->count++] = l;
}

lr_code router_handover_message_read(const struct lr_passed *message,
                                     struct router_handover_message *out, struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *v = NULL, *list;
    struct lr_str text;
    *out = (struct router_handover_message){0};
    lr_arena_init(&arena, 1 << 20);
    lr_code code = lr_json_parse(&arena, lr_str(message->text, message->len), NULL, &v, err);
    if (code == LR_OK && v->type != LR_JSON_OBJECT)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "a message of a handover is no object");
    if (code == LR_OK && lr_json_str(lr_json_get(v, "error"), &text))
        code = lr_fail(err, LR_UNAVAILABLE, LR_STR_FMT, LR_STR_ARG(lr_str_sub(text, 0, 300)));
    if (code == LR_OK) {
        (void)lr_json_u64(lr_json_get(v, "protocol"), &out->protocol);
        if (lr_json_str(lr_json_get(v, "version"), &text))
            LR_COPY(out->version, text);
        if (lr_json_str(lr_json_get(v, "secret"), &text))
            LR_COPY(out->secret, text);
        (void)lr_json_u64(lr_json_get(v, "locks"), &out->locks);
        out->is_ready = message_read_flag(v, "ready");
        out->is_go = message_read_flag(v, "go");
        out->only_left = message_read_flag(v, "only_left");
        out->was_left = message_read_flag(v, "was_left");
        out->says_bye = message_read_flag(v, "says_bye");
        out->is_bye = message_read_flag(v, "bye");
        list = lr_json_get(v, "listeners");
        for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
            read_listener(&list->items[i], &out->listeners);
    }
    lr_arena_free(&arena);
    return code;
}
