/* chat/parse_options.c - Ollama's `options`: see chat/parse.h. */
#include <stdio.h>

#include "chat/parse.h"

/* Parses `value` as the field `as`; an error names the field that the client has sent. */
static lr_code parse_as(struct chat_parse *p, const char *as, const char *name,
                        const struct lr_json *value)
{
    lr_code code = chat_parse_sampling(p, as, value);
    if (code != LR_OK)
        (void)snprintf(p->e->param, sizeof(p->e->param), "%s", name);
    return code;
}

lr_code chat_parse_repeat_penalty(struct chat_parse *p, const char *name,
                                  const struct lr_json *value)
{
    return parse_as(p, "repetition_penalty", name, value);
}

/* `name` is "options.top_p". */
static lr_code parse_sampling(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    return parse_as(p, strchr(name, '.') + 1, name, value);
}

static lr_code parse_predict(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    return chat_parse_max_tokens(p, name, value, &p->max_tokens);
}

/* Ollama's words for "no limit": 0, -1 (without an end) and -2 (until the context is full). */
static lr_code parse_unbounded_predict(struct chat_parse *p, const char *name,
                                       const struct lr_json *value)
{
    int64_t n;
    if (!lr_json_i64(value, &n) || n < -2 || n > 0)
        return parse_predict(p, name, value);
    p->max_tokens = 0;
    return LR_OK;
}

/* clang-format off */
#define SHARED \
    {"temperature", parse_sampling}, {"top_p", parse_sampling}, {"top_k", parse_sampling}, \
    {"min_p", parse_sampling}, {"presence_penalty", parse_sampling}, \
    {"frequency_penalty", parse_sampling}, {"repeat_penalty", chat_parse_repeat_penalty}, \
    {"seed", chat_parse_seed}, {"stop", chat_parse_stop}, {"num_ctx", NULL}
/* clang-format on */

lr_code chat_parse_options(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    static const struct chat_member members[] = {
        SHARED, {"num_predict", parse_predict}, {NULL, NULL}};
    return chat_parse_object(p, name, value, members);
}

lr_code chat_parse_runner_options(struct chat_parse *p, const char *name,
                                  const struct lr_json *value)
{
    static const struct chat_member members[] = {SHARED,
                                                 {"num_predict", parse_unbounded_predict},
                                                 {"num_keep", NULL},
                                                 {"num_batch", NULL},
                                                 {"num_gpu", NULL},
                                                 {"main_gpu", NULL},
                                                 {"num_thread", NULL},
                                                 {"numa", NULL},
                                                 {"low_vram", NULL},
                                                 {"f16_kv", NULL},
                                                 {"logits_all", NULL},
                                                 {"vocab_only", NULL},
                                                 {"use_mmap", NULL},
                                                 {"use_mlock", NULL},
                                                 {"embedding_only", NULL},
                                                 {"tfs_z", NULL},
                                                 {"typical_p", NULL},
                                                 {"repeat_last_n", NULL},
                                                 {"mirostat", NULL},
                                                 {"mirostat_tau", NULL},
                                                 {"mirostat_eta", NULL},
                                                 {"penalize_newline", NULL},
                                                 {"draft_num_predict", NULL},
                                                 {NULL, NULL}};
    return chat_parse_object(p, name, value, members);
}
