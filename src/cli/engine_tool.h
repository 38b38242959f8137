/* cli/engine_tool.h - loads an engine plugin in this process, opens a model, runs requests.
 *
 * Shared by `debug logits`, `debug generate` and `bench engine`.  The plugin is loaded as in a
 * worker (manifest first, then the library).  Thread: one.
 */
#ifndef CLI_ENGINE_TOOL_H
#define CLI_ENGINE_TOOL_H

#include "base/settings.h"
#include "llm-router/engine.h"

/* Settings of every tool that opens an engine. */
#define CLI_ENGINE_FLAGS                                                                       \
    {.name = "model", .type = LR_SETTING_PATH, .value = "DIR", .help = "folder of the model"}, \
        {.name = "device",                                                                     \
         .type = LR_SETTING_STRING,                                                            \
         .fallback = "cpu",                                                                    \
         .help = "cpu, cuda, cuda:N, a GPU's UUID, vulkan, vulkan:N or metal"},                \
        {.name = "engine",                                                                     \
         .type = LR_SETTING_STRING,                                                            \
         .value = "ID",                                                                        \
         .help =                                                                               \
             "folder of the engine inside the engines folder; default: the one that a node "   \
             "takes for the model"},                                                           \
        {.name = "engines-dir",                                                                \
         .type = LR_SETTING_PATH,                                                              \
         .value = "DIR",                                                                       \
         .help = "folder with the engines; default: the folder installed with the program"},   \
        {.name = "artifact",                                                                   \
         .type = LR_SETTING_PATH,                                                              \
         .value = "FILE",                                                                      \
         .help = "use these weights (a metal/model.bin) instead of the safetensors"},          \
        {.name = "engine-options",                                                             \
         .type = LR_SETTING_STRING,                                                            \
         .value = "JSON",                                                                      \
         .help = "the engine's own options, a JSON object"},                                   \
        {.name = "threads",                                                                    \
         .type = LR_SETTING_INT,                                                               \
         .fallback = "0",                                                                      \
         .max = 1024,                                                                          \
         .help = "host threads; 0: one per core"},                                             \
        {.name = "chunk",                                                                      \
         .type = LR_SETTING_INT,                                                               \
         .fallback = "0",                                                                      \
         .max = 65536,                                                                         \
         .help = "prompt tokens per step; 0: the engine chooses"},                             \
    {                                                                                          \
        .name = "context", .type = LR_SETTING_INT, .fallback = "0", .max = 1 << 24,            \
        .help = "longest sequence, in tokens; 0: the engine chooses"                           \
    }

struct cli_engine {
    const struct lr_engine_api *api;
    struct lr_engine_model *model;
    struct lr_engine_need need;
};

/* Opens the model of the settings; max_sequences and max_tokens as in struct lr_engine_options.
 * host is borrowed until close. */
LR_MUST_USE lr_code cli_engine_open(const struct lr_settings *settings,
                                    const struct lr_engine_host *host, uint32_t max_sequences,
                                    uint64_t max_tokens, struct cli_engine *out,
                                    struct lr_error *err);
/* The same with another folder than --model, and with engine-specific options. */
LR_MUST_USE lr_code cli_engine_open_extra(const struct lr_settings *settings,
                                          const struct lr_engine_host *host, const char *dir,
                                          const char *extra_json, uint32_t max_sequences,
                                          uint64_t max_tokens, struct cli_engine *out,
                                          struct lr_error *err);
void cli_engine_close(struct cli_engine *engine);

/* Reads a JSON array of token ids from stdin.  The caller frees *ids. */
LR_MUST_USE lr_code cli_engine_read_ids(uint32_t **ids, size_t *count, struct lr_error *err);

/* A `log` member for hosts: writes warnings and errors of an engine to stderr. */
void cli_engine_log(void *ctx, int32_t level, const char *event, const char *text);

#endif
