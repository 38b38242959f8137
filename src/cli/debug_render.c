/* cli/debug_render.c - `debug render`: renders a chat template with a JSON input.
 *
 * Writes exactly the rendered text, or the segments as JSON. The special tokens in the input
 * come from the person who types the command, so they are trusted, like those that the router
 * takes from the model.
 */
#include "base/file.h"
#include "base/json.h"
#include "chat/harmony/template.h"
#include "chat/template/chatml.h"
#include "chat/template/manners.h"
#include "chat/template/object.h"
#include "chat/template/render.h"
#include "chat/template/repair.h"
#include "cli/commands.h"
#include "jinja/jinja.h"

enum { INPUT_MAX = 256 << 20, MAX_TRUSTED = 16 };

static size_t find_special_tokens(const struct lr_json *context, struct jinja_var *out)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && count < MAX_TRUSTED; i++) {
        struct lr_str text;
        if (lr_json_str(lr_json_get(context, names[i]), &text))
            out[count++] = (struct jinja_var){lr_str_z(names[i]), text};
    }
    return count;
}

static void add_segments(struct lr_buf *out, const struct jinja_output *rendered)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_array(&w);
    for (size_t i = 0; i < rendered->count; i++) {
        lr_json_begin_object(&w);
        lr_json_member_str(&w, "text", rendered->segments[i].text);
        lr_json_member_bool(&w, "control", rendered->segments[i].control);
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
    lr_buf_add_char(out, '\n');
}

static lr_code render_template(const struct lr_settings *settings, bool repair,
                               const struct lr_json *context, const struct tm *now,
                               struct lr_arena *arena, struct jinja_output *out,
                               struct lr_error *err)
{
    struct jinja_var trusted[MAX_TRUSTED];
    struct jinja_template *tmpl = NULL;
    struct lr_str source;
    const char *path = lr_settings_str(settings, "template");
    lr_code rc = lr_file_read(arena, path, INPUT_MAX, &source, err);
    if (rc == LR_OK)
        rc = jinja_compile(source, &tmpl, err);
    if (rc == LR_OK) {
        struct jinja_input input = {.context = context,
                                    .trusted = trusted,
                                    .trusted_count = find_special_tokens(context, trusted),
                                    .now = now};
        struct lr_json fitted = *context;
        if (repair && lr_settings_bool(settings, "fit")) {
            struct chat_object o;
            uint32_t manners = chat_manners_of(tmpl, trusted, input.trusted_count);
            struct lr_json_member *messages = chat_object_begin(&o, arena, context, 0)
                                                  ? chat_object_find(&o, "messages")
                                                  : NULL;
            if (messages == NULL || !chat_manners_apply(arena, manners, &messages->value))
                rc = lr_fail(err, LR_OUT_OF_RAM, "no memory, or no messages");
            fitted = chat_object_json(&o);
            input.context = &fitted;
        }
        if (rc == LR_OK)
            rc = repair ? chat_template_render(tmpl, &input, arena, out, err)
                        : jinja_render(tmpl, &input, out, err);
    }
    jinja_template_destroy(tmpl);
    return rc;
}

static lr_code debug_render_this(const struct lr_settings *settings, struct lr_arena *arena,
                                 struct jinja_output *out, struct lr_error *err)
{
    const char *path = lr_settings_str(settings, "template");
    const char *name = lr_settings_str(settings, "default");
    const char *input = lr_settings_str(settings, "input");
    const char *now_text = lr_settings_str(settings, "now");
    const struct lr_json *context = NULL;
    struct lr_str text;
    struct tm now;
    if (input == NULL || (path == NULL) == (name == NULL))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "--input FILE and one of --template FILE, --default NAME are needed");
    lr_code rc = LR_OK;
    if (now_text != NULL)
        rc = jinja_parse_time(lr_str_z(now_text), &now, err);
    if (rc == LR_OK)
        rc = lr_file_read(arena, input, INPUT_MAX, &text, err);
    if (rc == LR_OK)
        rc = lr_json_parse(arena, text, NULL, &context, err);
    bool harmony = name != NULL && lr_str_eq_z(lr_str_z(name), "harmony");
    bool repair = lr_settings_bool(settings, "repair");
    if (rc == LR_OK && repair)
        rc = chat_repair(arena, context, harmony ? GRAMMAR_HARMONY : GRAMMAR_PLAIN, &context,
                         err);
    if (rc != LR_OK)
        return rc;
    if (path != NULL)
        return render_template(settings, repair, context, now_text != NULL ? &now : NULL, arena,
                               out, err);
    if (harmony)
        return chat_harmony_render(context, now_text != NULL ? &now : NULL, out, err);
    if (lr_str_eq_z(lr_str_z(name), "chatml"))
        return chat_chatml_render(context, out, err);
    return lr_fail(err, LR_INVALID_ARGUMENT, "--default is harmony or chatml, not \"%s\"",
                   name);
}

static lr_code debug_render_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct lr_arena arena;
    struct jinja_output rendered;
    struct lr_buf out;
    lr_arena_init(&arena, (size_t)2 << 30);
    jinja_output_init(&rendered, JINJA_MAX_OUTPUT);
    lr_buf_init(&out, (size_t)1 << 30);
    lr_code rc = debug_render_this(settings, &arena, &rendered, err);
    if (rc == LR_OK) {
        if (lr_settings_bool(settings, "segments"))
            add_segments(&out, &rendered);
        else
            lr_buf_add_str(&out, rendered.text);
        rc = cli_print(&out, err);
    }
    lr_buf_free(&out);
    jinja_output_free(&rendered);
    lr_arena_free(&arena);
    return rc;
}

static const struct lr_setting flags[] = {
    {.name = "template",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "chat template (Jinja) to render"},
    {.name = "default",
     .type = LR_SETTING_STRING,
     .value = "NAME",
     .help = "built-in template instead of a file: harmony or chatml"},
    {.name = "input",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "JSON object of the template's variables: messages, tools, ..."},
    {.name = "now",
     .type = LR_SETTING_STRING,
     .value = "TIME",
     .help = "the time that strftime_now uses, for example 2026-11-15T09:30:05"},
    {.name = "segments",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print [{\"text\", \"control\"}]; control tells whether control tokens are "
             "recognised"},
    {.name = "repair",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "normalise the input first, as the server does"},
    {.name = "fit",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "with --repair: also change what the template does not take, as the server does"},
};

const struct cli_command cli_debug_render = {
    .name = "render",
    .summary = "Render a chat template with variables from a JSON file",
    .details = "Writes exactly the rendered text, without a newline at the end.\n"
               "  llm-router debug render --template chat_template.jinja --input chat.json",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_render_run,
};
