#include "wire/device.h"

#include <stdio.h>

#include "base/json.h"

enum { ARENA_BYTES = 256 << 10 };

bool wire_device_is_cpu(const struct wire_device *device)
{
    return strcmp(device->type, "cpu") == 0;
}

void wire_devices_write(struct lr_buf *out, const struct wire_device *devices, size_t count)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_array(&w);
    for (const struct wire_device *d = devices; d < devices + count; d++) {
        lr_json_begin_object(&w);
        LR_JSON_MEMBERS(&w, LR_UINT("number", d->number), LR_TEXT("title", d->title),
                        LR_TEXT("type", d->type), LR_TEXT("api", d->api),
                        LR_TEXT("uuid", d->uuid), LR_UINT("memory", d->memory),
                        LR_UINT("budget", d->budget));
        if (d->why[0] != '\0')
            LR_JSON_MEMBERS(&w, LR_TEXT("why", d->why));
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
}

static bool device_take_text(const struct lr_json *item, const char *key, char *out,
                             size_t size)
{
    struct lr_str text;
    if (!lr_json_str(lr_json_get(item, key), &text) || text.len >= size)
        return false;
    (void)snprintf(out, size, LR_STR_FMT, LR_STR_ARG(text));
    return true;
}

static bool read_device(const struct lr_json *item, struct wire_device *d)
{
    uint64_t number;
    *d = (struct wire_device){0};
    if (!lr_json_u64(lr_json_get(item, "number"), &number) || number > UINT32_MAX)
        return false;
    d->number = (uint32_t)number;
    return device_take_text(item, "title", d->title, sizeof(d->title)) &&
           device_take_text(item, "type", d->type, sizeof(d->type)) &&
           device_take_text(item, "api", d->api, sizeof(d->api)) &&
           device_take_text(item, "uuid", d->uuid, sizeof(d->uuid)) &&
           lr_json_u64(lr_json_get(item, "memory"), &d->memory) &&
           lr_json_u64(lr_json_get(item, "budget"), &d->budget) &&
           (lr_json_get(item, "why") == NULL ||
            device_take_text(item, "why", d->why, sizeof(d->why)));
}

lr_code wire_devices_parse(struct lr_str text, struct wire_device out[WIRE_VULKAN_MAX],
                           size_t *count, struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *list;
    *count = 0;
    lr_arena_init(&arena, ARENA_BYTES);
    lr_code code = lr_json_parse(&arena, text, NULL, &list, err);
    if (code == LR_OK && (list->type != LR_JSON_ARRAY || list->count > WIRE_VULKAN_MAX))
        code =
            lr_fail(err, LR_INVALID_ARGUMENT, "no list of at most %d devices", WIRE_VULKAN_MAX);
    for (uint32_t i = 0; code == LR_OK && i < list->count; i++)
        if (!read_device(&list->items[i], &out[(*count)++]))
            code = lr_fail(err, LR_INVALID_ARGUMENT, "device %u of the list is malformed", i);
    lr_arena_free(&arena);
    return code;
}
