/* chat/dialect/dialect.c - see chat/dialect/dialect.h. */
#include "chat/dialect/dialect.h"

/* ---- Harmony ---- */

static void harmony_init(struct chat_reader *r, const struct chat_reader_options *options,
                         chat_delta_fn fn, void *ctx)
{
    struct chat_harmony_options harmony = {
        .no_tool_calls = options->forbids_calls,
        .builtin_tools = options->builtin_tools,
        .builtin_tool_count = options->builtin_count,
    };
    chat_harmony_init(&r->harmony, &harmony, fn, ctx);
}

static void harmony_token(struct chat_reader *r, struct lr_str bytes, bool special)
{
    chat_harmony_token(&r->harmony, bytes, special);
}

static void harmony_end(struct chat_reader *r, bool is_cut)
{
    (void)is_cut;
    chat_harmony_end(&r->harmony);
}

static void harmony_free(struct chat_reader *r)
{
    (void)r;
}

static bool harmony_in_reasoning(const struct chat_reader *r)
{
    return chat_harmony_in(&r->harmony, CHAT_CLASS_REASONING);
}

static bool harmony_in_content(const struct chat_reader *r)
{
    return chat_harmony_in(&r->harmony, CHAT_CLASS_CONTENT);
}

static size_t harmony_held(const struct chat_reader *r)
{
    (void)r;
    return 0;
}

static bool harmony_failed(const struct chat_reader *r)
{
    (void)r;
    return false;
}

static const uint32_t *harmony_repairs(const struct chat_reader *r)
{
    (void)r;
    return NULL;
}

static const struct chat_reading channels = {
    harmony_init,       harmony_token, harmony_end,    harmony_free,   harmony_in_reasoning,
    harmony_in_content, harmony_held,  harmony_failed, harmony_repairs};

/* ---- text with marks ---- */

static void marked_init(struct chat_reader *r, const struct chat_reader_options *options,
                        chat_delta_fn fn, void *ctx)
{
    struct chat_calls_options calls = {
        .format = r->dialect->format,
        .tools = options->tools,
        .tool_count = options->forbids_calls ? 0 : options->tool_count,
        .thought = r->dialect->thought,
        .is_opened = options->is_opened,
    };
    chat_calls_init(&r->calls, &calls, fn, ctx);
}

static void marked_token(struct chat_reader *r, struct lr_str bytes, bool special)
{
    chat_calls_token(&r->calls, bytes, special);
}

static void marked_end(struct chat_reader *r, bool is_cut)
{
    chat_calls_end(&r->calls, is_cut);
}

static void marked_free(struct chat_reader *r)
{
    chat_calls_free(&r->calls);
}

static bool marked_in_reasoning(const struct chat_reader *r)
{
    return r->calls.in_thought;
}

static bool marked_in_content(const struct chat_reader *r)
{
    return !chat_calls_in_call(&r->calls);
}

static size_t marked_held(const struct chat_reader *r)
{
    return chat_calls_held(&r->calls);
}

static bool marked_failed(const struct chat_reader *r)
{
    return chat_calls_failed(&r->calls);
}

static const uint32_t *marked_repairs(const struct chat_reader *r)
{
    return r->calls.repairs;
}

static const struct chat_reading marked = {marked_init, marked_token,        marked_end,
                                           marked_free, marked_in_reasoning, marked_in_content,
                                           marked_held, marked_failed,       marked_repairs};

/* ---- choosing ---- */

static struct chat_dialect dialect_make(enum grammar_format format, struct lr_str chat_template)
{
    bool is_channels = grammar_form_of(format)->shape == GRAMMAR_SHAPE_CHANNELS;
    return (struct chat_dialect){
        .name = grammar_format_name(format),
        .format = format,
        .thought = grammar_thought_of(format, chat_template),
        .reading = is_channels ? &channels : &marked,
        .is_channels = is_channels,
    };
}

struct chat_dialect chat_dialect_of(struct lr_str chat_template, struct lr_str architecture)
{
    /* chat/template/chatml.c shows tools as Hermes does. */
    enum grammar_format format = GRAMMAR_HERMES;
    if (chat_template.len != 0)
        format = grammar_format_of_template(chat_template);
    else if (lr_str_eq_z(architecture, "gpt-oss") || lr_str_eq_z(architecture, "gpt_oss") ||
             lr_str_eq_z(architecture, "GptOssForCausalLM"))
        format = GRAMMAR_HARMONY;
    return dialect_make(format, chat_template);
}

bool chat_dialect_named(struct lr_str name, struct lr_str chat_template,
                        struct chat_dialect *out)
{
    enum grammar_format format;
    if (!grammar_format_find(name, &format))
        return false;
    *out = dialect_make(format, chat_template);
    return true;
}

lr_code chat_dialect_check(struct lr_str name, struct lr_error *err)
{
    enum grammar_format format;
    struct lr_buf names;
    if (grammar_format_find(name, &format))
        return LR_OK;
    lr_buf_init(&names, 4096);
    for (enum grammar_format i = GRAMMAR_PLAIN; i < GRAMMAR_FORMAT_COUNT; i++)
        lr_buf_addf(&names, "%s%s", i == GRAMMAR_PLAIN ? "" : ", ", grammar_format_name(i));
    (void)lr_fail(err, LR_INVALID_ARGUMENT,
                  "there is no dialect \"" LR_STR_FMT "\"; the dialects are: %s",
                  LR_STR_ARG(lr_str_sub(name, 0, 60)), lr_buf_z(&names));
    lr_buf_free(&names);
    return LR_INVALID_ARGUMENT;
}

bool chat_dialect_writes(const struct chat_dialect *dialect, struct lr_str token)
{
    const struct grammar_form *f = grammar_form_of(dialect->format);
    const struct lr_str marks[] = {f->section,
                                   f->section_end,
                                   f->section2,
                                   f->section2_end,
                                   f->begin,
                                   f->end,
                                   f->lead,
                                   f->prefix,
                                   f->name_end,
                                   f->name_close,
                                   f->key,
                                   f->key_end,
                                   f->value,
                                   f->value_end,
                                   f->id_mark,
                                   f->drops[0],
                                   f->drops[1],
                                   f->drops[2],
                                   f->drops[3],
                                   f->drops[4],
                                   f->drops[5],
                                   dialect->thought.begin,
                                   dialect->thought.end};
    if (dialect->is_channels)
        return true;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (lr_str_find(marks[i], token) != LR_STR_NONE)
            return true;
    return false;
}

static bool dialect_ends(struct lr_str text, struct lr_str end)
{
    return end.len != 0 && text.len >= end.len &&
           memcmp(text.ptr + text.len - end.len, end.ptr, end.len) == 0;
}

bool chat_dialect_opens(const struct chat_dialect *dialect, struct lr_str tail)
{
    return dialect_ends(lr_str_trim(tail), dialect->thought.begin);
}
