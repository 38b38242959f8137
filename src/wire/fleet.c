#include "wire/fleet.h"

#include <stddef.h>
#include <string.h>

#include "llm-router/engine.h"
#include "wire/fleet_live.h"

enum { TEXT_MAX = 512 << 10 }; /* of one string: a chat template is the longest */

/* ---- writing ---- */

static void fleet_put_text(struct lr_json_writer *w, const char *key, struct lr_str text)
{
    if (text.len != 0)
        lr_json_member_str(w, key, text);
}

static const struct {
    const char *name;
    uint32_t given;
    size_t offset; /* of a float in struct lr_sampling_defaults */
} sampling_rows[] = {
    {"temperature", LR_GIVEN_TEMPERATURE, offsetof(struct lr_sampling_defaults, temperature)},
    {"top_p", LR_GIVEN_TOP_P, offsetof(struct lr_sampling_defaults, top_p)},
    {"min_p", LR_GIVEN_MIN_P, offsetof(struct lr_sampling_defaults, min_p)},
    {"repetition_penalty", LR_GIVEN_REPETITION_PENALTY,
     offsetof(struct lr_sampling_defaults, repetition_penalty)},
};
enum { SAMPLING_ROWS = sizeof(sampling_rows) / sizeof(sampling_rows[0]) };

void wire_sampling_write(struct lr_json_writer *w, const struct lr_sampling_defaults *sampling)
{
    for (size_t i = 0; i < SAMPLING_ROWS; i++) {
        float value;
        if ((sampling->given & sampling_rows[i].given) == 0)
            continue;
        memcpy(&value, (const char *)sampling + sampling_rows[i].offset, sizeof(value));
        lr_json_member_float(w, sampling_rows[i].name, value);
    }
    if ((sampling->given & LR_GIVEN_TOP_K) != 0)
        lr_json_member_u64(w, "top_k", sampling->top_k);
}

static void put_stops(struct lr_json_writer *w, const struct wire_fleet_model *m)
{
    if (m->stop_count == 0)
        return;
    lr_json_member_array(w, "stops");
    for (size_t i = 0; i < m->stop_count; i++)
        lr_json_put_str(w, m->stops[i]);
    lr_json_end_array(w);
}

/* A join goes to a router whose protocol is not known yet. */
static void fleet_write_model(struct lr_json_writer *w, const struct wire_fleet_model *m,
                              bool full, uint32_t protocol)
{
    lr_json_begin_object(w);
    lr_json_member_str(w, "id", m->id);
    lr_json_member_str(w, "state", m->state);
    fleet_put_text(w, "reason", m->reason);
    if (!full && protocol >= WIRE_SINCE_ERRORS)
        fleet_put_text(w, "reason_id", m->reason_id);
    lr_json_member_bool(w, "can_run", m->can_run);
    lr_json_member_bool(w, "loaded", m->is_loaded);
    lr_json_member_bool(w, "pinned", m->is_pinned);
    lr_json_member_u64(w, "slots", m->slots);
    lr_json_member_u64(w, "replicas", m->replicas);
    if (m->max_context != 0)
        lr_json_member_u64(w, "max_context", m->max_context);
    lr_json_member_u64(w, "requests", m->requests);
    lr_json_member_u64(w, "live", m->live);
    lr_json_member_u64(w, "queued", m->queued);
    if (m->kv_total != 0) {
        lr_json_member_u64(w, "kv_used", m->kv_used);
        lr_json_member_u64(w, "kv_total", m->kv_total);
    }
    if (m->failures != 0)
        lr_json_member_u64(w, "failures", m->failures);
    if (m->next_try_ms != 0)
        lr_json_member_u64(w, "next_try_ms", m->next_try_ms);
    lr_json_member_u64(w, "load_ms", m->load_ms);
    lr_json_member_u64(w, "prefill_us", m->prefill_us);
    lr_json_member_u64(w, "step_us", m->step_us);
    if (!full && protocol >= WIRE_SINCE_WEIGHTS)
        fleet_put_text(w, "weights", m->weights);
    if (full) {
        fleet_put_text(w, "chat_template", m->chat_template);
        fleet_put_text(w, "dialect", m->dialect);
        put_stops(w, m);
        /* for routers of protocol 2, which know this one by a flag */
        lr_json_member_bool(w, "harmony", lr_str_eq_z(m->dialect, "harmony"));
        fleet_put_text(w, "bos_token", m->bos_token);
        fleet_put_text(w, "eos_token", m->eos_token);
        fleet_put_text(w, "unk_token", m->unk_token);
        fleet_put_text(w, "pad_token", m->pad_token);
        if (m->sampling.given != 0) {
            lr_json_key(w, "sampling");
            lr_json_begin_object(w);
            wire_sampling_write(w, &m->sampling);
            lr_json_end_object(w);
        }
        fleet_put_text(w, "engine", m->engine);
        fleet_put_text(w, "runtime", m->runtime);
        fleet_put_text(w, "architecture", m->architecture);
        fleet_put_text(w, "format", m->format);
        lr_json_member_u64(w, "context_tokens", m->context_tokens);
        lr_json_member_u64(w, "weight_bytes", m->weight_bytes);
        lr_json_member_u64(w, "kv_bytes", m->kv_bytes);
    }
    lr_json_end_object(w);
}

const struct wire_gpu_row wire_gpu_rows[WIRE_GPU_FIGURE_COUNT] = {
#define X(name, text, type, help) {text, type, help},
    WIRE_GPU_FIGURES(X)
#undef X
};

void wire_gpu_set(struct wire_gpu *gpu, enum wire_gpu_figure figure, uint64_t value)
{
    gpu->reported |= 1u << figure;
    gpu->figures[figure] = value;
}

void wire_gpu_write(struct lr_json_writer *w, const struct wire_gpu *gpu)
{
    for (uint32_t i = 0; i < WIRE_GPU_FIGURE_COUNT; i++)
        if ((gpu->reported >> i & 1) != 0)
            lr_json_member_u64(w, wire_gpu_rows[i].name, gpu->figures[i]);
    lr_json_member_bool(w, "faulty", gpu->is_faulty);
}

static void write_state(struct lr_json_writer *w, const struct wire_heartbeat *m, bool full)
{
    lr_json_member_bool(w, "draining", m->is_draining);
    lr_json_member_array(w, "models");
    for (size_t i = 0; i < m->model_count; i++)
        fleet_write_model(w, &m->models[i], full, m->protocol);
    lr_json_end_array(w);
    lr_json_member_array(w, "pools");
    for (size_t i = 0; i < m->pool_count; i++) {
        lr_json_begin_object(w);
        lr_json_member_str(w, "name", m->pools[i].name);
        lr_json_member_str(w, "title", m->pools[i].title);
        lr_json_member_u64(w, "total", m->pools[i].total);
        lr_json_member_u64(w, "used", m->pools[i].used);
        if (m->pools[i].gpu.reported != 0 || m->pools[i].gpu.is_faulty) {
            lr_json_member_object(w, "gpu");
            wire_gpu_write(w, &m->pools[i].gpu);
            fleet_put_text(w, "reason", m->pools[i].fault);
            lr_json_end_object(w);
        }
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}

void wire_heartbeat_write(struct lr_buf *out, const struct wire_heartbeat *m)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    write_state(&w, m, false);
    wire_fleet_live_write(&w, m);
    lr_json_end_object(&w);
}

void wire_join_write(struct lr_buf *out, const struct wire_join *m)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_u64(&w, "protocol", m->protocol);
    lr_json_member_str(&w, "version", m->version);
    lr_json_member_str(&w, "node_id", m->node_id);
    lr_json_member_str(&w, "name", m->name);
    fleet_put_text(&w, "url", m->url);
    lr_json_member_u64(&w, "port", m->port);
    lr_json_member_bool(&w, "tls", m->has_tls);
    lr_json_member_str(&w, "device", m->device);
    lr_json_member_str(&w, "secret", m->secret);
    lr_json_member_u64(&w, "epoch", m->state.epoch);
    write_state(&w, &m->state, true);
    lr_json_end_object(&w);
}

/* ---- reading ----
 *
 * Identity and protocol must be right.  Everything else describes load and memory: a wrong
 * member is dropped alone and named in `ignored`, so that one wrong number never costs a node
 * its heartbeat.
 */

static lr_code fleet_read_text(const struct lr_json *obj, const char *key, bool required,
                               struct lr_str *out, struct lr_error *err)
{
    const struct lr_json *v = lr_json_get(obj, key);
    *out = (struct lr_str){0};
    if (v == NULL || v->type == LR_JSON_NULL)
        return required ? lr_fail(err, LR_INVALID_ARGUMENT, "\"%s\" is missing", key) : LR_OK;
    if (!lr_json_str(v, out) || out->len > TEXT_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"%s\" must be a string", key);
    return LR_OK;
}

static lr_code fleet_read_number(const struct lr_json *obj, const char *key, uint64_t max,
                                 uint64_t *out, struct lr_error *err)
{
    const struct lr_json *v = lr_json_get(obj, key);
    *out = 0;
    if (v == NULL)
        return LR_OK;
    if (!lr_json_u64(v, out) || *out > max)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"%s\" must be a whole number up to %llu",
                       key, (unsigned long long)max);
    return LR_OK;
}

static bool fleet_read_flag(const struct lr_json *obj, const char *key)
{
    bool value = false;
    return lr_json_bool(lr_json_get(obj, key), &value) && value;
}

static void ignore(struct wire_heartbeat *m, const char *key)
{
    if (m->ignored == NULL)
        m->ignored = key;
}

/* "" for a missing or wrong member. */
static struct lr_str fleet_take_text(const struct lr_json *obj, const char *key,
                                     struct wire_heartbeat *m)
{
    struct lr_str text;
    if (fleet_read_text(obj, key, false, &text, NULL) == LR_OK)
        return text;
    ignore(m, key);
    return (struct lr_str){0};
}

/* 0 for a missing or wrong member. */
static uint64_t take_number(const struct lr_json *obj, const char *key, uint64_t max,
                            struct wire_heartbeat *m)
{
    uint64_t number;
    if (fleet_read_number(obj, key, max, &number, NULL) == LR_OK)
        return number;
    ignore(m, key);
    return 0;
}

static struct lr_sampling_defaults take_sampling(const struct lr_json *v)
{
    struct lr_sampling_defaults out = {0};
    uint64_t top_k;
    for (size_t i = 0; i < SAMPLING_ROWS; i++) {
        double value;
        if (!lr_json_double(lr_json_get(v, sampling_rows[i].name), &value) || value < 0 ||
            value > 1000)
            continue;
        float number = (float)value;
        memcpy((char *)&out + sampling_rows[i].offset, &number, sizeof(number));
        out.given |= sampling_rows[i].given;
    }
    if (lr_json_u64(lr_json_get(v, "top_k"), &top_k) && top_k <= INT32_MAX) {
        out.top_k = (uint32_t)top_k;
        out.given |= LR_GIVEN_TOP_K;
    }
    return out;
}

static void take_stops(const struct lr_json *list, struct wire_fleet_model *m)
{
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count &&
                         m->stop_count < WIRE_FLEET_STOPS_MAX;
         i++)
        m->stop_count += lr_json_str(&list->items[i], &m->stops[m->stop_count]);
}

/* False: the model's id or state is missing. */
static bool fleet_take_model(const struct lr_json *v, struct wire_fleet_model *m,
                             struct wire_heartbeat *out)
{
    *m = (struct wire_fleet_model){
        .id = fleet_take_text(v, "id", out),
        .state = fleet_take_text(v, "state", out),
        .reason = fleet_take_text(v, "reason", out),
        .reason_id = fleet_take_text(v, "reason_id", out),
        .can_run = fleet_read_flag(v, "can_run"),
        .is_loaded = fleet_read_flag(v, "loaded"),
        .is_pinned = fleet_read_flag(v, "pinned"),
        .slots = (uint32_t)take_number(v, "slots", WIRE_FLEET_SLOTS_MAX, out),
        .replicas = (uint32_t)take_number(v, "replicas", WIRE_FLEET_SLOTS_MAX, out),
        .max_context = take_number(v, "max_context", UINT32_MAX, out),
        .requests = lr_json_get(v, "requests") != NULL
                        ? (uint32_t)take_number(v, "requests", UINT32_MAX, out)
                        : 1u << LR_REQUEST_GENERATE,
        .live = (uint32_t)take_number(v, "live", UINT32_MAX, out),
        .queued = (uint32_t)take_number(v, "queued", UINT32_MAX, out),
        .kv_used = take_number(v, "kv_used", UINT64_MAX, out),
        .kv_total = take_number(v, "kv_total", UINT64_MAX, out),
        .failures = take_number(v, "failures", UINT32_MAX, out),
        .next_try_ms = take_number(v, "next_try_ms", UINT32_MAX, out),
        .load_ms = take_number(v, "load_ms", UINT32_MAX, out),
        .prefill_us = take_number(v, "prefill_us", UINT32_MAX, out),
        .step_us = take_number(v, "step_us", UINT32_MAX, out),
        .weights = fleet_take_text(v, "weights", out),
        .chat_template = fleet_take_text(v, "chat_template", out),
        .dialect = fleet_take_text(v, "dialect", out),
        .bos_token = fleet_take_text(v, "bos_token", out),
        .eos_token = fleet_take_text(v, "eos_token", out),
        .unk_token = fleet_take_text(v, "unk_token", out),
        .pad_token = fleet_take_text(v, "pad_token", out),
        .sampling = take_sampling(lr_json_get(v, "sampling")),
        .engine = fleet_take_text(v, "engine", out),
        .runtime = fleet_take_text(v, "runtime", out),
        .architecture = fleet_take_text(v, "architecture", out),
        .format = fleet_take_text(v, "format", out),
        .context_tokens = take_number(v, "context_tokens", UINT64_MAX, out),
        .weight_bytes = take_number(v, "weight_bytes", UINT64_MAX, out),
        .kv_bytes = take_number(v, "kv_bytes", UINT64_MAX, out),
    };
    take_stops(lr_json_get(v, "stops"), m);
    if (m->dialect.len == 0 && fleet_read_flag(v, "harmony")) /* a node of protocol 2 */
        m->dialect = LR_STR_LIT("harmony");
    return m->id.len != 0 && m->state.len != 0;
}

static void take_gpu(const struct lr_json *v, struct wire_gpu *gpu, struct wire_heartbeat *out)
{
    *gpu = (struct wire_gpu){.is_faulty = v != NULL && fleet_read_flag(v, "faulty")};
    for (uint32_t i = 0; v != NULL && i < WIRE_GPU_FIGURE_COUNT; i++) {
        uint64_t value;
        if (lr_json_get(v, wire_gpu_rows[i].name) == NULL)
            continue;
        if (fleet_read_number(v, wire_gpu_rows[i].name, UINT64_MAX, &value, NULL) == LR_OK)
            wire_gpu_set(gpu, i, value);
        else
            ignore(out, wire_gpu_rows[i].name);
    }
}

/* A list that is too long is truncated. */
static uint32_t take_array(const struct lr_json *obj, const char *key, uint32_t max,
                           const struct lr_json **items, struct wire_heartbeat *m)
{
    const struct lr_json *v = lr_json_get(obj, key);
    if (v == NULL)
        return 0;
    if (v->type != LR_JSON_ARRAY || v->count > max)
        ignore(m, key);
    *items = v->items;
    return v->type != LR_JSON_ARRAY ? 0 : v->count < max ? v->count : max;
}

static lr_code read_state(struct lr_arena *arena, const struct lr_json *obj,
                          struct wire_heartbeat *out, struct lr_error *err)
{
    const struct lr_json *items = NULL;
    *out = (struct wire_heartbeat){.is_draining = fleet_read_flag(obj, "draining")};
    out->epoch = take_number(obj, "epoch", UINT64_MAX, out);
    uint32_t count = take_array(obj, "models", WIRE_FLEET_MODELS_MAX, &items, out);
    struct wire_fleet_model *models = lr_arena_array(arena, count + 1u, sizeof(*models));
    if (models == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u models", count);
    for (uint32_t i = 0; i < count; i++) {
        if (fleet_take_model(&items[i], &models[out->model_count], out))
            out->model_count++;
        else
            ignore(out, "models");
    }
    out->models = models;
    count = take_array(obj, "pools", WIRE_FLEET_POOLS_MAX, &items, out);
    struct wire_fleet_pool *pools = lr_arena_array(arena, count + 1u, sizeof(*pools));
    if (pools == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u pools", count);
    for (uint32_t i = 0; i < count; i++) {
        struct wire_fleet_pool *pool = &pools[out->pool_count];
        pool->name = fleet_take_text(&items[i], "name", out);
        pool->title = fleet_take_text(&items[i], "title", out);
        pool->total = take_number(&items[i], "total", UINT64_MAX, out);
        pool->used = take_number(&items[i], "used", UINT64_MAX, out);
        const struct lr_json *gpu = lr_json_get(&items[i], "gpu");
        take_gpu(gpu, &pool->gpu, out);
        pool->fault = gpu != NULL ? fleet_take_text(gpu, "reason", out) : (struct lr_str){0};
        if (pool->name.len != 0)
            out->pool_count++;
        else
            ignore(out, "pools");
    }
    out->pools = pools;
    return LR_OK;
}

static lr_code fleet_read_object(struct lr_arena *arena, struct lr_str text,
                                 const struct lr_json **out, struct lr_error *err)
{
    lr_code code = lr_json_parse(arena, text, NULL, out, err);
    if (code == LR_OK && (*out)->type != LR_JSON_OBJECT)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "the body must be a JSON object");
    return code;
}

lr_code wire_heartbeat_parse(struct lr_arena *arena, struct lr_str text,
                             struct wire_heartbeat *out, struct lr_error *err)
{
    const struct lr_json *obj;
    lr_code code = fleet_read_object(arena, text, &obj, err);
    if (code == LR_OK)
        code = read_state(arena, obj, out, err);
    return code == LR_OK ? wire_fleet_live_read(arena, obj, out, err) : code;
}

lr_code wire_join_parse(struct lr_arena *arena, struct lr_str text, struct wire_join *out,
                        struct lr_error *err)
{
    const struct lr_json *obj;
    uint64_t protocol, port;
    *out = (struct wire_join){0};
    lr_code code = fleet_read_object(arena, text, &obj, err);
    if (code == LR_OK)
        code = fleet_read_number(obj, "protocol", UINT32_MAX, &protocol, err);
    if (code == LR_OK)
        code = fleet_read_text(obj, "version", true, &out->version, err);
    if (code == LR_OK && wire_protocol_common(protocol) == 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "the node (llm-router %.*s) speaks protocol %u, this router protocol "
                       "%d: upgrade the %s",
                       LR_STR_ARG(lr_str_sub(out->version, 0, 40)), (unsigned)protocol,
                       WIRE_PROTOCOL, protocol < WIRE_PROTOCOL ? "node" : "router");
    if (code == LR_OK)
        code = fleet_read_text(obj, "node_id", true, &out->node_id, err);
    if (code == LR_OK)
        code = fleet_read_text(obj, "url", false, &out->url, err);
    if (code == LR_OK)
        code = fleet_read_number(obj, "port", 65535, &port, err);
    if (code == LR_OK)
        code = fleet_read_text(obj, "device", true, &out->device, err);
    if (code == LR_OK)
        code = fleet_read_text(obj, "secret", true, &out->secret, err);
    if (code == LR_OK)
        code = read_state(arena, obj, &out->state, err);
    if (code != LR_OK)
        return code;
    out->protocol = (uint32_t)protocol;
    out->port = (uint16_t)port;
    out->has_tls = fleet_read_flag(obj, "tls");
    out->name = fleet_take_text(obj, "name", &out->state);
    return LR_OK;
}
