/* cli/list.c - llm-router list and llm-router ps: the models that can be used, and those that
 * are loaded now. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/remote.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
};

/* ---- list ---- */

static void print_aliases(const struct lr_json *model, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(model, "aliases");
    struct lr_str name;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (lr_json_str(&list->items[i], &name)) {
            lr_buf_add_z(out, i == 0 ? "  alias: " : ", ");
            cli_put(out, name);
        }
}

static void cli_list_print_list(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "data");
    if (list == NULL || list->count == 0) {
        lr_buf_add_z(out, "There is no model yet: llm-router pull openai/gpt-oss-20b\n");
        return;
    }
    lr_buf_addf(out, "%-40s %-10s %8s  %s\n", "MODEL", "STATE", "CONTEXT", "NOTES");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct lr_json *m = &list->items[i];
        char context[24] = "";
        if (lr_json_get(m, "alias_of") != NULL)
            continue; /* printed with its model */
        if (cli_int(m, "context_length") != 0)
            (void)snprintf(context, sizeof(context), "%lld",
                           (long long)cli_int(m, "context_length"));
        lr_buf_addf(out, "%-40s %-10s %8s", cli_text(&a->arena, m, "id"),
                    cli_text(&a->arena, m, "state"), context);
        print_aliases(m, out);
        const char *reason = cli_text(&a->arena, m, "reason");
        lr_buf_addf(out, "%s%s\n", reason[0] != '\0' ? "  " : "", reason);
    }
}

static lr_code run_list(const struct lr_settings *s, struct lr_error *err)
{
    return cli_show(s, "/v1/models?all=true", cli_list_print_list, err);
}

const struct cli_command cli_command_list = {
    .name = "list",
    .summary = "List the models that you can use",
    .details =
        "Works with any key. llm-router models has more, for operators: where a model comes\n"
        "from, and why it cannot run.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run_list,
};

/* ---- ps ---- */

static bool is_active(struct cli_answer *a, const struct lr_json *replica)
{
    const char *state = cli_raw(&a->arena, replica, "state");
    return cli_bool(replica, "loaded") || strcmp(state, "starting") == 0 ||
           strcmp(state, "loading") == 0;
}

static size_t print_replicas(struct cli_answer *a, const struct lr_json *model,
                             struct lr_buf *out)
{
    const struct lr_json *replicas = cli_array(model, "nodes");
    size_t count = 0;
    for (uint32_t i = 0; replicas != NULL && i < replicas->count; i++) {
        const struct lr_json *r = &replicas->items[i];
        char size[32];
        if (!is_active(a, r))
            continue;
        if (count++ == 0 && out->len == 0)
            lr_buf_addf(out, "%-40s %-16s %-9s %6s %5s %6s  %s\n", "MODEL", "NODE", "STATE",
                        "ACTIVE", "SLOTS", "QUEUED", "SIZE");
        lr_format_size((uint64_t)cli_int(r, "weight_bytes"), size);
        lr_buf_addf(out, "%-40s %-16s %-9s %6lld %5lld %6lld  %s%s\n",
                    cli_text(&a->arena, model, "id"), cli_text(&a->arena, r, "name"),
                    cli_text(&a->arena, r, "state"), (long long)cli_int(r, "inflight"),
                    (long long)cli_int(r, "slots"), (long long)cli_int(model, "queued"), size,
                    cli_bool(r, "pinned") ? ", pinned" : "");
    }
    return count;
}

static void print_ps(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "models");
    size_t count = 0;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        count += print_replicas(a, &list->items[i], out);
    if (count == 0)
        lr_buf_add_z(out, "No model is loaded: llm-router run MODEL loads one\n");
}

static lr_code run_ps(const struct lr_settings *s, struct lr_error *err)
{
    return cli_show(s, "/v0/models", print_ps, err);
}

const struct cli_command cli_command_ps = {
    .name = "ps",
    .summary = "List the models that are loaded, where, and how busy they are",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run_ps,
};
