#include "wire/reply.h"

#include "base/json.h"
#include "wire/error.h"

static const struct lr_json *reply_read_object(struct lr_arena *arena, struct lr_str text)
{
    const struct lr_json *obj;
    return lr_json_parse(arena, text, NULL, &obj, NULL) == LR_OK && obj->type == LR_JSON_OBJECT
               ? obj
               : NULL;
}

static struct lr_str reply_take_text(const struct lr_json *obj, const char *key)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(obj, key), &text);
    return text;
}

static uint64_t take_number(const struct lr_json *obj, const char *key, uint64_t max)
{
    uint64_t number = 0;
    return lr_json_u64(lr_json_get(obj, key), &number) && number <= max ? number : 0;
}

static void reply_put_text(struct lr_json_writer *w, const char *key, struct lr_str text)
{
    if (text.len != 0)
        lr_json_member_str(w, key, text);
}

/* ---- join and heartbeat ---- */

void wire_fleet_reply_write(struct lr_buf *out, const struct wire_fleet_reply *m)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    if (m->node_id.len != 0) {
        lr_json_member_str(&w, "node_id", m->node_id);
        lr_json_member_u64(&w, "protocol", m->protocol);
        lr_json_member_str(&w, "version", m->version);
        lr_json_member_u64(&w, "heartbeat_ms", m->heartbeat_ms);
    }
    if (m->has_registry)
        lr_json_member_u64(&w, "registry_version", m->registry_version);
    if (m->must_join)
        lr_json_member_bool(&w, "join", true);
    if (m->names_routers) {
        lr_json_member_array(&w, "routers");
        for (size_t i = 0; i < m->router_count; i++)
            lr_json_put_str(&w, m->routers[i]);
        lr_json_end_array(&w);
    }
    lr_json_end_object(&w);
}

lr_code wire_fleet_reply_parse(struct lr_arena *arena, struct lr_str text,
                               struct wire_fleet_reply *out, struct lr_error *err)
{
    const struct lr_json *obj = reply_read_object(arena, text);
    *out = (struct wire_fleet_reply){0};
    if (obj == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the answer is no JSON object");
    out->node_id = reply_take_text(obj, "node_id");
    out->protocol = (uint32_t)take_number(obj, "protocol", UINT32_MAX);
    out->version = reply_take_text(obj, "version");
    out->heartbeat_ms = (uint32_t)take_number(obj, "heartbeat_ms", UINT32_MAX);
    out->has_registry =
        lr_json_u64(lr_json_get(obj, "registry_version"), &out->registry_version);
    out->must_join = lr_json_get(obj, "join") != NULL;
    const struct lr_json *routers = lr_json_get(obj, "routers");
    out->names_routers = lr_json_is(routers, LR_JSON_ARRAY);
    for (uint32_t i = 0;
         out->names_routers && i < routers->count && out->router_count < WIRE_REPLY_ROUTERS_MAX;
         i++)
        if (lr_json_str(&routers->items[i], &out->routers[out->router_count]))
            out->router_count++;
    return LR_OK;
}

/* ---- the registry ---- */

void wire_registry_write(struct lr_buf *out, const struct wire_registry *m)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_u64(&w, "version", m->version);
    lr_json_member_array(&w, "models");
    for (size_t i = 0; i < m->count; i++) {
        const struct wire_registered *model = &m->models[i];
        lr_json_begin_object(&w);
        lr_json_member_str(&w, "id", model->id);
        lr_json_member_str(&w, "source", model->source);
        lr_json_member_str(&w, "format", model->format);
        if (model->generation != 0)
            lr_json_member_u64(&w, "generation", model->generation);
        reply_put_text(&w, "manifest_sha256", model->manifest_sha256);
        reply_put_text(&w, "path", model->path);
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
    lr_json_end_object(&w);
}

lr_code wire_registry_parse(struct lr_arena *arena, struct lr_str text,
                            struct wire_registry *out, struct lr_error *err)
{
    const struct lr_json *obj = reply_read_object(arena, text);
    const struct lr_json *list = obj != NULL ? lr_json_get(obj, "models") : NULL;
    *out = (struct wire_registry){0};
    if (!lr_json_is(list, LR_JSON_ARRAY) ||
        !lr_json_u64(lr_json_get(obj, "version"), &out->version))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the answer is no list of models");
    size_t count = list->count < WIRE_REGISTRY_MAX ? list->count : WIRE_REGISTRY_MAX;
    struct wire_registered *models = lr_arena_array(arena, count + 1, sizeof(*models));
    if (models == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu models", count);
    for (size_t i = 0; i < count; i++) {
        const struct lr_json *entry = &list->items[i];
        struct wire_registered *model = &models[out->count];
        *model = (struct wire_registered){
            .id = reply_take_text(entry, "id"),
            .source = reply_take_text(entry, "source"),
            .format = reply_take_text(entry, "format"),
            .manifest_sha256 = reply_take_text(entry, "manifest_sha256"),
            .path = reply_take_text(entry, "path"),
            .generation = take_number(entry, "generation", INT64_MAX),
        };
        out->count += model->id.len != 0;
    }
    out->models = models;
    return LR_OK;
}

/* ---- refusals, health ---- */

struct lr_str wire_refusal_message(struct lr_arena *arena, struct lr_str text)
{
    const struct lr_json *obj = reply_read_object(arena, text);
    return obj != NULL ? reply_take_text(lr_json_get(obj, "error"), "message")
                       : (struct lr_str){0};
}

static lr_code code_of_status(int status)
{
    static const lr_code codes[] = {
        LR_INVALID_ARGUMENT, LR_UNAUTHENTICATED, LR_PERMISSION_DENIED,
        LR_NOT_FOUND,        LR_CONFLICT,        LR_TOO_LARGE,
        LR_RATE_LIMITED,     LR_UNAVAILABLE,     LR_TIMEOUT};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (lr_code_http(codes[i]) == status)
            return codes[i];
    return LR_UPSTREAM;
}

void wire_refusal(struct lr_arena *arena, int status, struct lr_str text, struct lr_error *out)
{
    const struct lr_json *obj = reply_read_object(arena, text);
    const struct lr_json *said = obj != NULL ? lr_json_get(obj, "error") : NULL;
    wire_error_heard(out, code_of_status(status), reply_take_text(said, "message"),
                     reply_take_text(said, "id"));
}

uint64_t wire_health_epoch(struct lr_arena *arena, struct lr_str text)
{
    const struct lr_json *obj = reply_read_object(arena, text);
    return obj != NULL ? take_number(obj, "epoch", UINT64_MAX) : 0;
}
