/* cli/talk.h - a conversation with a model, for llm-router run and llm-router chat.
 *
 * Answers are printed as they come.  On a terminal their control characters are made visible.
 * Ctrl-C ends an answer, not the conversation. */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "base/buf.h"
#include "base/settings.h"
#include "cli/names.h"

#define CLI_TALK_FLAGS                                                                         \
    {.name = "system", .type = LR_SETTING_STRING, .help = "system message"},                   \
        {.name = "reasoning",                                                                  \
         .type = LR_SETTING_BOOL,                                                              \
         .help = "print the model's reasoning, too; default: on a terminal"},                  \
        {.name = "think",                                                                      \
         .type = LR_SETTING_BOOL,                                                              \
         .help = "whether the model reasons before it answers; default: as the model does"},   \
    {                                                                                          \
        .name = "temperature", .type = LR_SETTING_FLOAT, .fallback = "1", .max = 2,            \
        .help = "sampling temperature; 0: always the most likely token"                        \
    }

/* Further flags of `run`, in the words of Ollama's and llama.cpp's command lines. */
#define CLI_TALK_MORE_FLAGS                                                                    \
    {.name = "format",                                                                         \
     .type = LR_SETTING_STRING,                                                                \
     .value = "json|FILE",                                                                     \
     .help = "the answer is JSON, or matches the JSON Schema in this file"},                   \
        {.name = "seed",                                                                       \
         .type = LR_SETTING_INT,                                                               \
         .min = 0,                                                                             \
         .max = INT64_MAX,                                                                     \
         .help = "the same seed gives the same answer"},                                       \
        {.name = "max-tokens",                                                                 \
         .type = LR_SETTING_INT,                                                               \
         .min = 1,                                                                             \
         .max = INT32_MAX,                                                                     \
         .help = "the answer ends after this many tokens"},                                    \
    {                                                                                          \
        .name = "verbose", .type = LR_SETTING_BOOL, .fallback = "false",                       \
        .help = "print times and tokens per second on standard error"                          \
    }

enum { CLI_TALK_BYTES = 16 << 20 };

struct cli_talk {
    const struct lr_settings *settings;
    char model[CLI_ID_MAX];
    struct lr_buf history; /* messages, with commas, without brackets */
    struct lr_buf reply;
    bool is_terminal; /* standard output is one */
    bool shows_reasoning;
    bool is_thinking;            /* the reasoning is being printed */
    uint64_t begin_ms, first_ms; /* of an answer: when it was asked for, and its first text */
    uint64_t prompt_tokens, tokens; /* as the server counted them */
    struct lr_error failure;
};

/* Begins with the system message, if there is one.  The model is the caller's to set. */
void cli_talk_init(struct cli_talk *t, const struct lr_settings *settings);
void cli_talk_free(struct cli_talk *t);

/* Sends a message and prints the answer.  CANCELLED: Ctrl-C. */
LR_MUST_USE lr_code cli_talk_turn(struct cli_talk *t, struct lr_str text, struct lr_error *err);

/* Reads messages from standard input, a line each, until its end; with a terminal it prompts
 * for them. */
LR_MUST_USE lr_code cli_talk_converse(struct cli_talk *t, struct lr_error *err);

/* The arguments from `first` on, with blanks between them. */
void cli_talk_join(const struct lr_settings *s, size_t first, struct lr_buf *out);

#endif
