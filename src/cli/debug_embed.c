/* cli/debug_embed.c - `debug embed`: ids in, the vector of the text out, through the engine's
 * ABI. */
#include <stdlib.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/engine_tool.h"

enum { OUTPUT_MAX = 16 << 20 };

struct debug_embed {
    struct lr_buf text; /* the JSON array */
    bool done;
    enum lr_finish reason;
    struct lr_error error;
};

/* Nine digits tell every float32 from its neighbours. */
static void debug_embed_on_vector(void *ctx, uint64_t id, const struct lr_vector *vector)
{
    struct debug_embed *e = ctx;

    (void)id;
    for (uint32_t i = 0; i < vector->count; i++)
        lr_buf_addf(&e->text, "%s%.9g", i > 0 ? "," : "", (double)vector->values[i]);
}

static void debug_embed_on_done(void *ctx, uint64_t id, enum lr_finish reason,
                                const struct lr_usage *usage, const struct lr_error *error)
{
    struct debug_embed *e = ctx;

    (void)id;
    (void)usage;
    e->done = true;
    e->reason = reason;
    if (error != NULL)
        e->error = *error;
}

static lr_code embed(const struct lr_settings *settings, struct cli_engine *engine,
                     struct debug_embed *e, const uint32_t *ids, size_t count,
                     struct lr_error *err)
{
    const struct lr_engine_request request = {
        .size = sizeof(request),
        .kind = LR_REQUEST_EMBED,
        .id = 1,
        .prompt_ids = ids,
        .prompt_id_count = count,
        .dimensions = (uint32_t)lr_settings_int(settings, "dimensions"),
    };
    int32_t busy = 1;

    lr_code code = engine->api->submit(engine->model, &request, err);
    while (code == LR_OK && busy)
        code = engine->api->step(engine->model, &busy, err);
    if (code == LR_OK && e->reason == LR_FINISH_ERROR)
        return lr_fail(err, e->error.code, "%s", e->error.text);
    if (code == LR_OK && !e->done)
        return lr_fail(err, LR_INTERNAL, "the engine stopped without ending the request");
    return code;
}

static lr_code debug_embed_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct debug_embed e = {0};
    const struct lr_engine_host host = {
        .size = sizeof(host),
        .ctx = &e,
        .log = cli_engine_log,
        .on_vector = debug_embed_on_vector,
        .on_done = debug_embed_on_done,
    };
    struct cli_engine engine = {0};
    uint32_t *ids;
    size_t count;

    lr_buf_init(&e.text, OUTPUT_MAX);
    lr_buf_add_char(&e.text, '[');
    lr_code code = cli_engine_read_ids(&ids, &count, err);
    if (code == LR_OK)
        code = cli_engine_open(settings, &host, 1, 0, &engine, err);
    if (code == LR_OK)
        code = embed(settings, &engine, &e, ids, count, err);
    lr_buf_add_z(&e.text, "]\n");
    if (code == LR_OK)
        code = cli_print(&e.text, err);
    cli_engine_close(&engine);
    lr_buf_free(&e.text);
    free(ids);
    return code;
}

static const struct lr_setting flags[] = {
    CLI_ENGINE_FLAGS,
    {.name = "dimensions",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .max = 1 << 20,
     .help = "number of leading values to print, scaled to length 1 again; 0: all"},
};

const struct cli_command cli_debug_embed = {
    .name = "embed",
    .summary = "Compute the embedding of a JSON array of ids on stdin",
    .details =
        "Prints a JSON array of numbers; its length as a vector is 1.  The ids are used as\n"
        "they are: no token is added at either end.\n"
        "  echo '[1,2,3]' | llm-router debug embed --model DIR",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_embed_run,
};
