#include "wire/open.h"

#include "base/json.h"

/* [["text", true], ...]: the text, and whether control tokens are recognised in it. */
static void put_segments(struct lr_json_writer *w, const struct wire_open *m)
{
    lr_json_member_array(w, "segments");
    for (size_t i = 0; i < m->segment_count; i++) {
        lr_json_begin_array(w);
        lr_json_put_str(w, lr_str(m->segments[i].text, m->segments[i].len));
        lr_json_put_bool(w, m->segments[i].control != 0);
        lr_json_end_array(w);
    }
    lr_json_end_array(w);
}

lr_code wire_segments_decode(struct lr_arena *arena, const struct lr_json *list,
                             const struct lr_segment **out, size_t *count, struct lr_error *err)
{
    *out = NULL;
    *count = 0;
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return wire_malformed(err, "segments");
    struct lr_segment *segments = lr_arena_array(arena, list->count + 1u, sizeof(*segments));
    if (segments == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a prompt");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct lr_json *item = &list->items[i];
        struct lr_str text;
        bool control;
        if (!lr_json_is(item, LR_JSON_ARRAY) || item->count != 2 ||
            !lr_json_str(&item->items[0], &text) || !lr_json_bool(&item->items[1], &control))
            return wire_malformed(err, "segments");
        segments[i] =
            (struct lr_segment){.text = text.ptr, .len = text.len, .control = control};
    }
    *out = segments;
    *count = list->count;
    return LR_OK;
}

void wire_open_encode(struct lr_buf *buf, enum wire_type type, const struct wire_open *m)
{
    const struct lr_engine_options *o = &m->options;
    size_t start = wire_frame_begin(buf, type);
    struct lr_json_writer w;
    lr_json_writer_init(&w, buf);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "library", m->library);
    lr_json_member_z(&w, "engine_id", m->engine_id);
    lr_json_member_z(&w, "engine_version", m->engine_version);
    lr_json_member_u64(&w, "abi_version", m->abi_version);
    lr_json_member_z(&w, "model_dir", m->model_dir);
    lr_json_member_z(&w, "format", m->format);
    lr_json_member_z(&w, "weights", m->weights);
    lr_json_member_bool(&w, "downloaded", m->is_downloaded);
    lr_json_member_z(&w, "blobs", m->blobs);
    if (m->has_stop)
        lr_json_member_u64(&w, "stop_id", m->stop_id);
    lr_json_member_array(&w, "devices");
    for (uint32_t i = 0; i < o->device_count; i++)
        lr_json_put_z(&w, o->devices[i]);
    lr_json_end_array(&w);
    lr_json_member_u64(&w, "vram_limit", o->vram_limit);
    lr_json_member_u64(&w, "ram_limit", o->ram_limit);
    lr_json_member_u64(&w, "max_tokens", o->max_tokens);
    lr_json_member_u64(&w, "max_sequences", o->max_sequences);
    lr_json_member_u64(&w, "max_context", o->max_context);
    lr_json_member_u64(&w, "prefill_chunk", o->prefill_chunk);
    lr_json_member_u64(&w, "threads", o->threads);
    lr_json_member_u64(&w, "target_gap_ms", o->target_gap_ms);
    lr_json_member_z(&w, "artifact", o->artifact_path);
    lr_json_member_z(&w, "filename", o->filename);
    lr_json_member_z(&w, "extra", o->extra_json);
    if (type == WIRE_COUNT) {
        lr_json_member_bool(&w, "stays", m->stays);
        put_segments(&w, m);
    }
    lr_json_end_object(&w);
    wire_frame_end(buf, start);
}

/* NULL for null and for an absent member. */
static const char *get_text(struct lr_arena *arena, const struct lr_json *root, const char *key)
{
    struct lr_str text;
    return lr_json_str(lr_json_get(root, key), &text) ? lr_arena_copy(arena, text) : NULL;
}

static uint64_t get_u64(const struct lr_json *root, const char *key)
{
    uint64_t n = 0;
    return lr_json_u64(lr_json_get(root, key), &n) ? n : 0;
}

static uint32_t get_u32(const struct lr_json *root, const char *key)
{
    uint64_t n = get_u64(root, key);
    return n <= UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static lr_code get_devices(struct lr_arena *arena, const struct lr_json *list,
                           struct lr_engine_options *o, struct lr_error *err)
{
    if (!lr_json_is(list, LR_JSON_ARRAY) || list->count > WIRE_DEVICES_MAX)
        return wire_malformed(err, "open");
    const char **devices = lr_arena_array(arena, list->count + 1u, sizeof(*devices));
    if (devices == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the device list");
    for (uint32_t i = 0; i < list->count; i++) {
        struct lr_str text;
        if (!lr_json_str(&list->items[i], &text))
            return wire_malformed(err, "open");
        devices[i] = lr_arena_copy(arena, text);
    }
    o->devices = devices;
    o->device_count = list->count;
    return LR_OK;
}

lr_code wire_open_decode(struct lr_arena *arena, struct lr_str body, struct wire_open *out,
                         struct lr_error *err)
{
    const struct lr_json *root;
    struct lr_json_limits limits = {.max_depth = 4, .max_bytes = WIRE_BODY_MAX};
    *out = (struct wire_open){0};
    lr_code code = lr_json_parse(arena, body, &limits, &root, err);
    if (code != LR_OK)
        return code;
    out->library = get_text(arena, root, "library");
    out->engine_id = get_text(arena, root, "engine_id");
    out->engine_version = get_text(arena, root, "engine_version");
    out->abi_version = get_u32(root, "abi_version");
    out->model_dir = get_text(arena, root, "model_dir");
    out->format = get_text(arena, root, "format");
    out->weights = get_text(arena, root, "weights");
    (void)lr_json_bool(lr_json_get(root, "downloaded"), &out->is_downloaded);
    (void)lr_json_bool(lr_json_get(root, "stays"), &out->stays);
    out->blobs = get_text(arena, root, "blobs");
    out->has_stop = lr_json_get(root, "stop_id") != NULL;
    out->stop_id = get_u32(root, "stop_id");
    if (out->library == NULL)
        return wire_malformed(err, "open");
    struct lr_engine_options *o = &out->options;
    o->size = sizeof(*o);
    o->vram_limit = get_u64(root, "vram_limit");
    o->ram_limit = get_u64(root, "ram_limit");
    o->max_tokens = get_u64(root, "max_tokens");
    o->max_sequences = get_u32(root, "max_sequences");
    o->max_context = get_u32(root, "max_context");
    o->prefill_chunk = get_u32(root, "prefill_chunk");
    o->threads = get_u32(root, "threads");
    o->target_gap_ms = get_u32(root, "target_gap_ms");
    o->artifact_path = get_text(arena, root, "artifact");
    o->filename = get_text(arena, root, "filename");
    o->extra_json = get_text(arena, root, "extra");
    const struct lr_json *segments = lr_json_get(root, "segments");
    code = get_devices(arena, lr_json_get(root, "devices"), o, err);
    return code == LR_OK && segments != NULL
               ? wire_segments_decode(arena, segments, &out->segments, &out->segment_count, err)
               : code;
}
