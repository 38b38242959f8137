/* cli/debug_generate.c - `debug generate`: ids in, new ids out, through the engine's ABI. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/engine_tool.h"

enum { OUTPUT_MAX = 64 << 20 };

struct answer {
    struct lr_buf text; /* the JSON array so far */
    uint32_t count;
    bool done;
    enum lr_finish reason;
    struct lr_error error;
};

static void debug_generate_on_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    struct answer *a = ctx;

    (void)id;
    lr_buf_addf(&a->text, "%s%u", a->count++ > 0 ? "," : "", token->id);
}

static void debug_generate_on_done(void *ctx, uint64_t id, enum lr_finish reason,
                                   const struct lr_usage *usage, const struct lr_error *error)
{
    struct answer *a = ctx;

    (void)id;
    (void)usage;
    a->done = true;
    a->reason = reason;
    if (error != NULL)
        a->error = *error;
}

static struct lr_sampling sampling_of(const struct lr_settings *s)
{
    return (struct lr_sampling){
        .size = sizeof(struct lr_sampling),
        .temperature = (float)lr_settings_float(s, "temperature"),
        .top_p = (float)lr_settings_float(s, "top-p"),
        .min_p = (float)lr_settings_float(s, "min-p"),
        .top_k = (uint32_t)lr_settings_int(s, "top-k"),
        .repetition_penalty = (float)lr_settings_float(s, "repetition-penalty"),
        .presence_penalty = (float)lr_settings_float(s, "presence-penalty"),
        .frequency_penalty = (float)lr_settings_float(s, "frequency-penalty"),
        .seed = (uint64_t)lr_settings_int(s, "seed"),
    };
}

static lr_code generate(const struct lr_settings *s, struct cli_engine *engine,
                        struct answer *answer, const uint32_t *ids, size_t count,
                        struct lr_error *err)
{
    const struct lr_engine_request request = {
        .size = sizeof(request),
        .id = 1,
        .prompt_ids = ids,
        .prompt_id_count = count,
        .sampling = sampling_of(s),
        .max_tokens = (uint32_t)lr_settings_int(s, "max-tokens"),
        .ignore_stop = lr_settings_bool(s, "ignore-stop") ? 1 : 0,
    };
    int32_t busy = 1;

    lr_code code = engine->api->submit(engine->model, &request, err);
    while (code == LR_OK && busy)
        code = engine->api->step(engine->model, &busy, err);
    if (code == LR_OK && answer->reason == LR_FINISH_ERROR)
        return lr_fail(err, answer->error.code, "%s", answer->error.text);
    if (code == LR_OK && !answer->done)
        return lr_fail(err, LR_INTERNAL, "the engine stopped without ending the request");
    return code;
}

static lr_code debug_generate_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct answer answer = {0};
    const struct lr_engine_host host = {
        .size = sizeof(host),
        .ctx = &answer,
        .log = cli_engine_log,
        .on_token = debug_generate_on_token,
        .on_done = debug_generate_on_done,
    };
    struct cli_engine engine = {0};
    uint32_t *ids;
    size_t count;

    lr_buf_init(&answer.text, OUTPUT_MAX);
    lr_buf_add_char(&answer.text, '[');
    lr_code code = cli_engine_read_ids(&ids, &count, err);
    if (code == LR_OK)
        code = cli_engine_open(settings, &host, 1, 0, &engine, err);
    if (code == LR_OK)
        code = generate(settings, &engine, &answer, ids, count, err);
    lr_buf_add_z(&answer.text, "]\n");
    if (code == LR_OK)
        code = cli_print(&answer.text, err);
    cli_engine_close(&engine);
    lr_buf_free(&answer.text);
    free(ids);
    return code;
}

static const struct lr_setting flags[] = {
    CLI_ENGINE_FLAGS,
    {.name = "max-tokens",
     .type = LR_SETTING_INT,
     .fallback = "32",
     .min = 1,
     .max = 1 << 24,
     .help = "largest number of new ids"},
    {.name = "temperature",
     .type = LR_SETTING_FLOAT,
     .fallback = "0",
     .max = 100,
     .help = "sampling temperature; 0: always the most likely id"},
    {.name = "seed", .type = LR_SETTING_INT, .fallback = "0", .help = "seed of the sampling"},
    {.name = "top-p", .type = LR_SETTING_FLOAT, .fallback = "1", .max = 1, .help = "1: off"},
    {.name = "top-k",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .max = 1 << 20,
     .help = "0: off"},
    {.name = "min-p", .type = LR_SETTING_FLOAT, .fallback = "0", .max = 1, .help = "0: off"},
    {.name = "repetition-penalty",
     .type = LR_SETTING_FLOAT,
     .fallback = "1",
     .max = 100,
     .help = "1: off"},
    {.name = "presence-penalty",
     .type = LR_SETTING_FLOAT,
     .fallback = "0",
     .min = -100,
     .max = 100,
     .help = "0: off"},
    {.name = "frequency-penalty",
     .type = LR_SETTING_FLOAT,
     .fallback = "0",
     .min = -100,
     .max = 100,
     .help = "0: off"},
    {.name = "ignore-stop",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "continue after the model's stop tokens"},
};

const struct cli_command cli_debug_generate = {
    .name = "generate",
    .summary = "Continue a JSON array of ids on stdin; prints the new ids as a JSON array",
    .details = "A stop token is the last id of the result.  The same seed gives the same ids.\n"
               "  echo '[1,2,3]' | llm-router debug generate --model DIR --max-tokens 16",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_generate_run,
};
