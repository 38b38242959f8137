#include "wire/fleet_live.h"

#include <string.h>

#include "base/errors.h"

/* ---- writing ---- */

static void put_file(struct lr_json_writer *w, const struct wire_fleet_file *f)
{
    lr_json_begin_object(w);
    lr_json_member_str(w, "name", f->name);
    lr_json_member_str(w, "state", f->state);
    if (f->reason.len != 0)
        lr_json_member_str(w, "reason", f->reason);
    lr_json_member_u64(w, "size", f->size);
    lr_json_member_u64(w, "done", f->done);
    lr_json_end_object(w);
}

void wire_fleet_download_put(struct lr_json_writer *w, const struct wire_fleet_download *d)
{
    lr_json_member_u64(w, "done_bytes", d->done_bytes);
    lr_json_member_u64(w, "total_bytes", d->total_bytes);
    lr_json_member_u64(w, "rate", d->rate);
    if (d->remaining_ms != UINT64_MAX)
        lr_json_member_u64(w, "remaining_ms", d->remaining_ms);
    lr_json_member_u64(w, "files_done", d->files_done);
    lr_json_member_u64(w, "file_count", d->files);
    lr_json_member_array(w, "files");
    for (size_t i = 0; i < d->file_count; i++)
        put_file(w, &d->file[i]);
    lr_json_end_array(w);
}

void wire_event_put_error(struct lr_json_writer *w, const struct lr_error *why)
{
    struct lr_str identity = lr_error_identity_of(why);
    lr_json_member_z(w, "reason", why->text);
    if (identity.len != 0)
        lr_json_member_str(w, WIRE_EVENT_ERROR_ID, identity);
}

/* A neighbour of the protocol before is sent no identity.  A quote within a string of JSON has
 * a backslash before it, so the member is found by its name. */
static void fleet_live_put_event(struct lr_json_writer *w, struct lr_str event,
                                 uint32_t protocol)
{
    char shorter[4096];
    struct lr_str name = LR_STR_LIT(",\"" WIRE_EVENT_ERROR_ID "\":\"");
    size_t at = protocol < WIRE_SINCE_ERRORS ? lr_str_find(event, name) : LR_STR_NONE;
    struct lr_str after = lr_str_sub(event, at != LR_STR_NONE ? at + name.len : 0, event.len);
    size_t end = at != LR_STR_NONE ? lr_str_find_char(after, '"') : LR_STR_NONE;
    if (end == LR_STR_NONE || event.len >= sizeof(shorter)) {
        lr_json_put_raw(w, event);
        return;
    }
    after = lr_str_sub(after, end + 1, after.len);
    memcpy(shorter, event.ptr, at);
    memcpy(shorter + at, after.ptr, after.len);
    lr_json_put_raw(w, lr_str(shorter, at + after.len));
}

void wire_fleet_live_write(struct lr_json_writer *w, const struct wire_heartbeat *m)
{
    lr_json_member_u64(w, "epoch", m->epoch);
    lr_json_member_u64(w, "event_end", m->event_end);
    if (m->protocol >= WIRE_SINCE_CLOCK)
        lr_json_member_u64(w, "clock_ms", m->clock_ms);
    if (m->event_texts != NULL && m->event_count != 0) {
        lr_json_member_array(w, "events");
        for (size_t i = 0; i < m->event_count; i++)
            fleet_live_put_event(w, lr_str_z(m->event_texts[i]), m->protocol);
        lr_json_end_array(w);
    }
    if (m->download_count != 0) {
        lr_json_member_array(w, "downloads");
        for (size_t i = 0; i < m->download_count; i++) {
            lr_json_begin_object(w);
            lr_json_member_str(w, "id", m->downloads[i].id);
            wire_fleet_download_put(w, &m->downloads[i]);
            lr_json_end_object(w);
        }
        lr_json_end_array(w);
    }
}

/* ---- reading ---- */

static bool fleet_live_read_number(const struct lr_json *obj, const char *key, uint64_t absent,
                                   uint64_t *out)
{
    const struct lr_json *v = lr_json_get(obj, key);
    *out = absent;
    return v == NULL || lr_json_u64(v, out);
}

static bool fleet_live_read_text(const struct lr_json *obj, const char *key, bool required,
                                 struct lr_str *out)
{
    const struct lr_json *v = lr_json_get(obj, key);
    *out = (struct lr_str){0};
    return v == NULL ? !required : lr_json_str(v, out);
}

static bool fleet_live_read_file(const struct lr_json *v, struct wire_fleet_file *f)
{
    return fleet_live_read_text(v, "name", true, &f->name) &&
           fleet_live_read_text(v, "state", true, &f->state) &&
           fleet_live_read_text(v, "reason", false, &f->reason) &&
           fleet_live_read_number(v, "size", 0, &f->size) &&
           fleet_live_read_number(v, "done", 0, &f->done);
}

/* A missing list counts as empty. */
static bool fleet_live_read_list(const struct lr_json *obj, const char *key, uint32_t max,
                                 const struct lr_json **items, size_t *count)
{
    const struct lr_json *v = lr_json_get(obj, key);
    *count = 0;
    if (v == NULL)
        return true;
    if (v->type != LR_JSON_ARRAY || v->count > max)
        return false;
    *items = v->items;
    *count = v->count;
    return true;
}

static bool read_download(struct lr_arena *arena, const struct lr_json *v,
                          struct wire_fleet_download *d)
{
    const struct lr_json *items = NULL;
    uint64_t files_done, files;
    if (!fleet_live_read_text(v, "id", true, &d->id) ||
        !fleet_live_read_number(v, "done_bytes", 0, &d->done_bytes) ||
        !fleet_live_read_number(v, "total_bytes", 0, &d->total_bytes) ||
        !fleet_live_read_number(v, "rate", 0, &d->rate) ||
        !fleet_live_read_number(v, "remaining_ms", UINT64_MAX, &d->remaining_ms) ||
        !fleet_live_read_number(v, "files_done", 0, &files_done) ||
        !fleet_live_read_number(v, "file_count", 0, &files) || files_done > UINT32_MAX ||
        files > UINT32_MAX ||
        !fleet_live_read_list(v, "files", WIRE_FLEET_FILES_MAX, &items, &d->file_count))
        return false;
    struct wire_fleet_file *file = lr_arena_zalloc(arena, (d->file_count + 1) * sizeof(*file));
    if (file == NULL)
        return false;
    for (size_t i = 0; i < d->file_count; i++)
        if (!fleet_live_read_file(&items[i], &file[i]))
            return false;
    d->file = file;
    d->files_done = (uint32_t)files_done;
    d->files = (uint32_t)files;
    return true;
}

static lr_code read_downloads(struct lr_arena *arena, const struct lr_json *obj,
                              struct wire_heartbeat *out, struct lr_error *err)
{
    const struct lr_json *items = NULL;
    size_t count;
    if (!fleet_live_read_list(obj, "downloads", WIRE_FLEET_DOWNLOADS_MAX, &items, &count))
        out->ignored = "downloads";
    struct wire_fleet_download *downloads =
        lr_arena_zalloc(arena, (count + 1) * sizeof(*downloads));
    if (downloads == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for downloads");
    for (size_t i = 0; i < count; i++) {
        if (read_download(arena, &items[i], &downloads[out->download_count]))
            out->download_count++;
        else
            out->ignored = "downloads";
    }
    out->downloads = downloads;
    return LR_OK;
}

lr_code wire_fleet_live_read(struct lr_arena *arena, const struct lr_json *obj,
                             struct wire_heartbeat *out, struct lr_error *err)
{
    const struct lr_json *items = NULL;
    if (!fleet_live_read_number(obj, "clock_ms", 0, &out->clock_ms)) {
        out->clock_ms = 0;
        out->ignored = "clock_ms";
    }
    if (!fleet_live_read_number(obj, "event_end", 0, &out->event_end) ||
        !fleet_live_read_list(obj, "events", WIRE_FLEET_EVENTS_MAX, &items,
                              &out->event_count) ||
        out->event_end < out->event_count) {
        out->event_end = out->event_count = 0;
        out->ignored = "events";
    }
    const struct lr_json **events =
        lr_arena_zalloc(arena, (out->event_count + 1) * sizeof(*events));
    if (events == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for events");
    for (size_t i = 0; i < out->event_count; i++)
        events[i] = &items[i];
    out->events = events;
    return read_downloads(arena, obj, out, err);
}
