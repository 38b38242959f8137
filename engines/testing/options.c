/* engines/testing/options.c - the options of a test: config.json and extra_json. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/os/file.h"
#include "engines/testing/testing.h"

#ifndef LR_TESTING_FAULTS
#define LR_TESTING_FAULTS 0
#endif

enum { CONFIG_BYTES = 64 << 10 };

static bool read_stage(const struct lr_json *value, enum testing_stage *out)
{
    static const char *const names[] = {"", "load", "submit", "step", "close", "probe"};
    struct lr_str text;
    if (!lr_json_str(value, &text))
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (lr_str_eq_z(text, names[i])) {
            *out = (enum testing_stage)i;
            return true;
        }
    return false;
}

static bool read_text(const struct lr_json *value, char *out, size_t capacity)
{
    struct lr_str text;
    if (!lr_json_str(value, &text) || text.len >= capacity)
        return false;
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return true;
}

static bool read_member(struct testing_options *o, struct lr_str key, const struct lr_json *v)
{
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {
        {"weights_bytes", &o->weights_bytes},   {"use_bytes", &o->use_bytes},
        {"leak_bytes", &o->leak_bytes},         {"load_ms", &o->load_ms},
        {"load_silent_ms", &o->load_silent_ms}, {"step_ms", &o->step_ms},
        {"prefill_ms", &o->prefill_ms},         {"after_tokens", &o->after_tokens},
        {"poison_after", &o->poison_after},     {"ram_bytes", &o->ram_bytes},
    };
    const struct {
        const char *name;
        bool *value;
    } flags[] = {
        {"on_device", &o->on_device},   {"invalid_utf8", &o->invalid_utf8},
        {"say_time", &o->say_time},     {"say_version", &o->say_version},
        {"say_prompt", &o->say_prompt}, {"say_controls", &o->say_controls},
        {"noise", &o->noise},           {"fill", &o->fill},
        {"spread", &o->spread},         {"say_weights", &o->say_weights},
        {"shout", &o->shout},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (lr_str_eq_z(key, numbers[i].name))
            return lr_json_u64(v, numbers[i].value);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (lr_str_eq_z(key, flags[i].name))
            return lr_json_bool(v, flags[i].value);
    if (lr_str_eq_z(key, "hang"))
        return read_stage(v, &o->hang);
    if (lr_str_eq_z(key, "crash"))
        return read_stage(v, &o->crash);
    if (lr_str_eq_z(key, "fail"))
        return read_stage(v, &o->fail);
    if (lr_str_eq_z(key, "poison"))
        return read_text(v, o->poison, sizeof(o->poison));
    if (lr_str_eq_z(key, "gate"))
        return read_text(v, o->gate, sizeof(o->gate));
    if (lr_str_eq_z(key, "refuses"))
        return read_text(v, o->refuses, sizeof(o->refuses));
    if (lr_str_eq_z(key, "once"))
        return read_text(v, o->once, sizeof(o->once));
    return false;
}

static lr_code read_object(struct testing_options *out, const struct lr_json *object,
                           struct lr_error *err)
{
    if (object == NULL)
        return LR_OK;
    if (object->type != LR_JSON_OBJECT)
        return lr_fail(err, LR_INVALID_ARGUMENT, "engine options must be a JSON object");
    for (uint32_t i = 0; i < object->count; i++)
        if (!read_member(out, object->members[i].key, &object->members[i].value))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "engine option \"" LR_STR_FMT "\" is unknown or has a wrong value",
                           LR_STR_ARG(object->members[i].key));
    return LR_OK;
}

static lr_code check_architecture(const struct lr_json *config, const char *path,
                                  struct lr_error *err)
{
    const struct lr_json *list = lr_json_get(config, "architectures");
    struct lr_str name = LR_STR_LIT("nothing");
    if (lr_json_is(list, LR_JSON_ARRAY) && list->count != 0 &&
        lr_json_str(&list->items[0], &name) && lr_str_eq_z(name, "EchoForTesting"))
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s: architecture " LR_STR_FMT ", this engine runs EchoForTesting only",
                   path, LR_STR_ARG(name));
}

static lr_code read_config(struct testing_options *out, const char *model_dir,
                           struct lr_arena *arena, struct lr_error *err)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/config.json", model_dir);
    FILE *file = lr_fopen(path, "rbe");
    if (file == NULL)
        return lr_fail_errno(err, LR_MODEL_CORRUPT, "%s", path);
    char *text = lr_arena_alloc(arena, CONFIG_BYTES);
    size_t len = text != NULL ? fread(text, 1, CONFIG_BYTES, file) : 0;
    (void)fclose(file);
    const struct lr_json *config;
    if (lr_json_parse(arena, lr_str(text, len), NULL, &config, err) != LR_OK) {
        (void)lr_fail_prefix(err, "%s", path);
        err->code = LR_MODEL_CORRUPT;
        return LR_MODEL_CORRUPT;
    }
    lr_code code = check_architecture(config, path, err);
    return code == LR_OK ? read_object(out, lr_json_get(config, "testing"), err) : code;
}

/* `echo` has only the harmless options; faults need the `faulty` build. */
static void drop_faults(struct testing_options *o)
{
    o->hang = o->crash = o->fail = TESTING_NOWHERE;
    o->use_bytes = o->leak_bytes = o->load_silent_ms = 0;
    o->invalid_utf8 = o->noise = false;
    o->poison[0] = '\0';
}

lr_code testing_options_read(struct testing_options *out, const char *model_dir,
                             const char *extra_json, struct lr_error *err)
{
    struct lr_arena arena;
    lr_code code = LR_OK;

    memset(out, 0, sizeof(*out));
    lr_arena_init(&arena, 4 << 20);
    /* No folder: the node was started with --engine and without a model. */
    if (model_dir != NULL && model_dir[0] != '\0')
        code = read_config(out, model_dir, &arena, err);
    if (code == LR_OK && extra_json != NULL && extra_json[0] != '\0') {
        const struct lr_json *extra;
        code = lr_json_parse(&arena, lr_str_z(extra_json), NULL, &extra, err);
        if (code == LR_OK)
            code = read_object(out, extra, err);
    }
    lr_arena_free(&arena);
    if (!LR_TESTING_FAULTS)
        drop_faults(out);
    if (out->weights_bytes == 0)
        out->weights_bytes = 1 << 20;
    return code;
}
