#include "cli/show.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "template",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the chat template alone"},
    {.name = "parameters",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the sampling defaults alone"},
    {.name = "system",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the system message of an alias alone"},
};

static bool show_wants(const struct lr_settings *s, const char *flag)
{
    return lr_settings_knows(s, lr_str_z(flag)) && lr_settings_bool(s, flag);
}

static void show_put_words(struct cli_answer *a, const char *title, const char *key,
                           struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, key);
    struct lr_str word;
    lr_buf_addf(out, "%-14s", title);
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (lr_json_str(&list->items[i], &word)) {
            lr_buf_add_z(out, i != 0 ? ", " : "");
            cli_put(out, word);
        }
    lr_buf_add_char(out, '\n');
}

static void put_row(const char *title, const char *text, struct lr_buf *out)
{
    if (text[0] != '\0')
        lr_buf_addf(out, "%-14s%s\n", title, text);
}

/* Each line of a text, moved in. */
static void put_lines(struct cli_answer *a, const char *title, const char *key,
                      struct lr_buf *out)
{
    struct lr_str rest = lr_str_z(cli_raw(&a->arena, a->json, key)), line;
    if (rest.len == 0)
        return;
    lr_buf_addf(out, "%s\n", title);
    while (lr_str_split(&rest, '\n', &line)) {
        lr_buf_add_z(out, "  ");
        cli_put(out, line);
        lr_buf_add_char(out, '\n');
    }
}

static void print_model(struct cli_answer *a, const char *id, struct lr_buf *out)
{
    const struct lr_json *details = lr_json_get(a->json, "details");
    const struct lr_json *info = lr_json_get(a->json, "model_info");
    const char *template = cli_raw(&a->arena, a->json, "template");
    char text[64];
    put_row("model", id, out);
    put_row("architecture", cli_text(&a->arena, info, "general.architecture"), out);
    put_row("format", cli_text(&a->arena, details, "format"), out);
    put_row("quantization", cli_text(&a->arena, details, "quantization_level"), out);
    put_row("parameters", cli_text(&a->arena, details, "parameter_size"), out);
    for (uint32_t i = 0; info != NULL && i < info->count; i++)
        if (lr_str_ends(info->members[i].key, ".context_length")) {
            uint64_t tokens = 0;
            (void)lr_json_u64(&info->members[i].value, &tokens);
            (void)snprintf(text, sizeof(text), "%llu tokens", (unsigned long long)tokens);
            put_row("context", text, out);
        }
    show_put_words(a, "capabilities", "capabilities", out);
    (void)snprintf(text, sizeof(text), "%zu bytes (--template prints it)", strlen(template));
    put_row("template", template[0] != '\0' ? text : "none of its own: ChatML", out);
    put_lines(a, "sampling", "parameters", out);
    put_lines(a, "system", "system", out);
    put_lines(a, "license", "license", out);
}

lr_code cli_show_model(const struct lr_settings *s, const char *name, struct lr_error *err)
{
    static const char *const parts[] = {"template", "parameters", "system"};
    struct cli_answer a;
    struct lr_buf body, out;
    char id[CLI_ID_MAX];
    lr_code code = cli_usable_model_id(s, name, id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&body, 4096);
    lr_buf_init(&out, 16 << 20);
    lr_buf_add_z(&body, "{\"model\":");
    lr_json_quote(&body, lr_str_z(id));
    lr_buf_add_char(&body, '}');
    code = cli_ask(s, "POST", "/api/show", &body, &a, err);
    bool is_part = false;
    for (size_t i = 0; code == LR_OK && i < sizeof(parts) / sizeof(parts[0]); i++)
        if (show_wants(s, parts[i])) {
            is_part = true;
            lr_buf_addf(&out, "%s\n", cli_raw(&a.arena, a.json, parts[i]));
        }
    if (code == LR_OK && !is_part)
        print_model(&a, id, &out);
    if (code == LR_OK)
        code = cli_report(s, &a, &out, err);
    cli_answer_free(&a);
    lr_buf_free(&body);
    lr_buf_free(&out);
    return code;
}

static lr_code run_show(const struct lr_settings *s, struct lr_error *err)
{
    return cli_show_model(s, lr_settings_positional(s, 0), err);
}

const struct cli_command cli_command_show = {
    .name = "show",
    .summary = "Show what a model is and can do",
    .arguments = "MODEL",
    .details =
        "Works with any key. Whether a model that is not here would run: llm-router fit.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 1,
    .run = run_show,
};
