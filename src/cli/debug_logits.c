/* cli/debug_logits.c - `debug logits`: the model's logits at every position.
 *
 * For comparing an engine with another or with a reference: nothing is sampled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/engine_tool.h"

static lr_code print_logits(struct cli_engine *engine, const uint32_t *ids, size_t count,
                            struct lr_error *err)
{
    size_t total = count * engine->need.vocab_size;

    if (!LR_ENGINE_HAS(engine->api, logits))
        return lr_fail(err, LR_UNSUPPORTED, "this engine does not offer logits");
    float *logits = calloc(total, sizeof(*logits));
    if (logits == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu logits", total);
    lr_code code = engine->api->logits(engine->model, ids, count, logits, err);
    if (code == LR_OK &&
        (fwrite(logits, sizeof(*logits), total, stdout) != total || fflush(stdout) != 0))
        code = lr_fail_errno(err, LR_IO, "cannot write to standard output");
    free(logits);
    return code;
}

/* Also the line with the name of the device: `doctor --device` reads it. */
static void debug_logits_tell(void *ctx, int32_t level, const char *event, const char *text)
{
    const char *end = strrchr(event, '.');
    bool is_open = end != NULL && strcmp(end, ".open") == 0;
    cli_engine_log(ctx, is_open && level < 2 ? 2 : level, event, text);
}

static lr_code debug_logits_run(const struct lr_settings *settings, struct lr_error *err)
{
    const struct lr_engine_host host = {.size = sizeof(host), .log = debug_logits_tell};
    struct cli_engine engine = {0};
    uint32_t *ids, beside = (uint32_t)lr_settings_int(settings, "beside");
    size_t count;
    char extra[32];

    snprintf(extra, sizeof(extra), "{\"beside\":%u}", beside);
    lr_code code = cli_engine_read_ids(&ids, &count, err);
    if (code == LR_OK)
        code = cli_engine_open_extra(settings, &host, lr_settings_str(settings, "model"),
                                     beside > 0 ? extra : NULL, 1 + beside, 0, &engine, err);
    if (code == LR_OK)
        code = print_logits(&engine, ids, count, err);
    cli_engine_close(&engine);
    free(ids);
    return code;
}

static const struct lr_setting flags[] = {
    CLI_ENGINE_FLAGS,
    {.name = "beside",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .max = 63,
     .help = "other prompts of the same length in each batch; takes the place of "
             "--engine-options"},
};

const struct cli_command cli_debug_logits = {
    .name = "logits",
    .summary = "Compute the logits of every position of a JSON array of ids on stdin",
    .details = "Writes only little-endian float32 values, positions times vocabulary.\n"
               "--chunk N computes the prompt in chunks of N; on the CPU device the bytes are\n"
               "the same for every N, and beside other prompts (--beside N).\n"
               "  echo '[1,2,3]' | llm-router debug logits --model DIR > logits.f32",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_logits_run,
};
