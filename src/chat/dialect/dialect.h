/* chat/dialect/dialect.h - what a model reads and writes: its dialect.
 *
 * A dialect is chosen once, where a model's chat template is compiled: by what the template
 * shows, by an operator, or (without a template) by the architecture.  Everything that depends
 * on it asks it: the default template, repairs of messages, the reader of answers, the form of
 * constraints and the switches of reasoning.  Processes name it by its name.
 */
#ifndef CHAT_DIALECT_DIALECT_H
#define CHAT_DIALECT_DIALECT_H

#include "base/fail.h"
#include "chat/calls.h"
#include "chat/harmony/parser.h"
#include "grammar/calls.h"

struct chat_reader;

struct chat_reader_options {
    bool forbids_calls;                /* the request has no tools, or wants none called */
    const struct chat_declared *tools; /* borrowed while the reader lives */
    uint32_t tool_count;
    const struct lr_str *builtin_tools; /* declared tools that look like Harmony's own */
    uint32_t builtin_count;
    bool is_opened; /* the prompt ended inside reasoning */
};

/* How answers are read. */
struct chat_reading {
    void (*init)(struct chat_reader *r, const struct chat_reader_options *options,
                 chat_delta_fn fn, void *ctx);
    void (*token)(struct chat_reader *r, struct lr_str bytes, bool special);
    void (*end)(struct chat_reader *r, bool is_cut);
    void (*free)(struct chat_reader *r);
    bool (*in_reasoning)(const struct chat_reader *r);
    bool (*in_content)(const struct chat_reader *r);         /* the next text may be content */
    size_t (*held)(const struct chat_reader *r);             /* bytes that are not given yet */
    bool (*failed)(const struct chat_reader *r);             /* no memory: text was lost */
    const uint32_t *(*repairs)(const struct chat_reader *r); /* CHAT_REPAIR_COUNT; NULL: none */
};

struct chat_dialect {
    const char *name;
    enum grammar_format format;
    struct grammar_thought thought; /* in static memory */
    const struct chat_reading *reading;
    bool is_channels; /* messages have channels, and the default template is Harmony's */
};

struct chat_reader {
    const struct chat_dialect *dialect; /* borrowed */
    union {
        struct chat_harmony harmony;
        struct chat_calls calls;
    };
};

/* The dialect that a template shows; without a template that of the default template of the
 * architecture. */
struct chat_dialect chat_dialect_of(struct lr_str chat_template, struct lr_str architecture);

/* A dialect by its name, with the marks of reasoning of the template.  False: this version has
 * no such dialect. */
bool chat_dialect_named(struct lr_str name, struct lr_str chat_template,
                        struct chat_dialect *out);

/* INVALID_ARGUMENT, with all names, where this version has no dialect of the name. */
LR_MUST_USE lr_code chat_dialect_check(struct lr_str name, struct lr_error *err);

/* True when answers of the dialect may go on behind this control token. */
bool chat_dialect_writes(const struct chat_dialect *dialect, struct lr_str token);

/* True when answers of the dialect have reasoning of their own. */
static inline bool chat_dialect_thinks(const struct chat_dialect *dialect)
{
    return dialect->is_channels || dialect->thought.end.len != 0;
}

/* True when a prompt that ends so makes the answer begin inside reasoning. */
bool chat_dialect_opens(const struct chat_dialect *dialect, struct lr_str tail);

#endif
