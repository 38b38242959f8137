/* cli/debug_metal.c - `debug write-metal`: a snapshot's weights as a metal/model.bin.
 *
 * For tests of the second encoding, and for models without such a file.  The file is complete
 * except for the split pattern, which no reader uses.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/commands.h"
#include "model/gptoss.h"
#include "model/metalbin.h"
#include "tokenizer/tokenizer.h"

/* Text tokens must come first and control tokens last: the encoding has no other order. */
static uint32_t first_control(const struct tokenizer *t, uint32_t rows)
{
    const char *bytes;
    uint32_t len, flags, id = rows;
    while (id > 0 && tokenizer_token(t, id - 1, &bytes, &len, &flags) &&
           (flags & (LR_VOCAB_SPECIAL | LR_VOCAB_UNUSED)) != 0)
        id--;
    return id;
}

static lr_code write_with_tokenizer(const struct model_gptoss *m, const struct tokenizer *t,
                                    const char *output, struct lr_error *err)
{
    uint32_t rows = tokenizer_vocab_size(t);
    if (rows > m->vocab_rows)
        rows = m->vocab_rows;
    struct lr_str *texts = calloc((size_t)rows + 1, sizeof(*texts));
    if (texts == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u tokens", rows);
    for (uint32_t id = 0; id < rows; id++) {
        uint32_t len, flags;
        if (tokenizer_token(t, id, &texts[id].ptr, &len, &flags))
            texts[id].len = len;
    }
    uint32_t text_count = first_control(t, rows);
    const struct model_metalbin_tokenizer section = {.text_count = text_count,
                                                     .special_count = rows - text_count,
                                                     .regex = "",
                                                     .text = texts,
                                                     .special_names = texts + text_count};
    lr_code code = model_metalbin_write(m, &section, output, err);
    free(texts);
    return code;
}

static lr_code debug_metal_run(const struct lr_settings *settings, struct lr_error *err)
{
    const char *dir = lr_settings_str(settings, "model");
    const char *output = lr_settings_str(settings, "output");
    if (dir == NULL || output == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "--model DIR and --output FILE are needed");
    struct model_gptoss *m;
    struct tokenizer *t = NULL;
    char path[LR_PATH_MAX];
    lr_code code = model_gptoss_open(dir, NULL, &m, err);
    if (code != LR_OK)
        return code;
    code = lr_path_join(path, dir, LR_STR_LIT("tokenizer.json"), err);
    if (code == LR_OK && lr_file_exists(path))
        code = tokenizer_open_file(path, &t, err);
    if (code == LR_OK)
        code = t != NULL ? write_with_tokenizer(m, t, output, err)
                         : model_metalbin_write(m, NULL, output, err);
    tokenizer_free(t);
    model_gptoss_close(m);
    return code;
}

static const struct lr_setting flags[] = {
    {.name = "model",
     .type = LR_SETTING_PATH,
     .value = "DIR",
     .help = "snapshot of a gpt-oss model: config.json and safetensors"},
    {.name = "output",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "the model.bin to write; the file must not exist"},
};

const struct cli_command cli_debug_write_metal = {
    .name = "write-metal",
    .summary = "Write the weights of a gpt-oss snapshot as a metal/model.bin",
    .details =
        "Writes the same weights in the order of the official Metal artifact.  Without a "
        "tokenizer.json in the snapshot the token texts are left empty.\n"
        "  llm-router debug write-metal --model models/demo --output model.bin",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_metal_run,
};
