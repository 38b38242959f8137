/* cli/fit.c - llm-router fit: whether a model would run here, and what it would take. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/resolve.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "context",
     .type = LR_SETTING_INT,
     .min = 1,
     .max = 1 << 30,
     .fallback = "32768",
     .help = "tokens of each user; at most the model's own context counts"},
    {.name = "users",
     .type = LR_SETTING_INT,
     .min = 1,
     .max = 100000,
     .fallback = "1",
     .help = "sequences that are answered at the same time"},
    CLI_CHOICE_FLAGS,
};

static const char *size_text(const struct lr_json *o, const char *key, char out[32])
{
    lr_format_size((uint64_t)cli_int(o, key), out);
    return out;
}

static void put_names(struct cli_answer *a, const struct lr_json *list, struct lr_buf *out)
{
    struct lr_str name;
    (void)a;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (lr_json_str(&list->items[i], &name)) {
            lr_buf_add_z(out, i != 0 ? ", " : "");
            cli_put(out, name);
        }
}

static const char *plan_text(const char *plan)
{
    static const char *const words[][2] = {
        {"fits", "fits"},
        {"reclaim", "fits, other models give back KV memory"},
        {"evict", "fits, unloads"},
        {"wait", "fits once others have ended their requests, unloads"},
        {"never", "does not fit"},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(plan, words[i][0]) == 0)
            return words[i][1];
    return plan;
}

static void put_node(struct cli_answer *a, const struct lr_json *n, uint64_t weights,
                     bool has_experts, struct lr_buf *out)
{
    char available[32], total[32], disk[32];
    const char *reason = cli_text(&a->arena, n, "reason");
    const struct lr_json *evicts = cli_array(n, "evicts");
    lr_buf_addf(out, "%s: ", cli_text(&a->arena, n, "name"));
    if (reason[0] != '\0') {
        lr_buf_addf(out, "cannot run it: %s\n", reason);
        return;
    }
    lr_buf_addf(out, "%s", plan_text(cli_text(&a->arena, n, "plan")));
    if (evicts != NULL && evicts->count != 0) {
        lr_buf_add_char(out, ' ');
        put_names(a, evicts, out);
    }
    lr_buf_addf(out, "; %s of %s of %s are there for it; engine %s\n",
                size_text(n, "available", available), size_text(n, "total", total),
                cli_text(&a->arena, n, "pool"), cli_text(&a->arena, n, "engine"));
    if (cli_int(n, "largest_context") != 0)
        lr_buf_addf(out, "  largest context: %lld tokens\n",
                    (long long)cli_int(n, "largest_context"));
    double rate = cli_real(n, "tokens_per_second");
    if (rate > 0)
        lr_buf_addf(out, "  about %.3g tokens/s for one answer (%s)\n", rate,
                    cli_bool(n, "measured") ? "measured on this node with other models"
                                            : "an estimate from its memory's speed");
    if (has_experts)
        lr_buf_addf(out, "  its experts lie in %s with the other weights\n",
                    cli_bool(n, "on_device") ? "the GPU's memory" : "RAM");
    bool is_short = (uint64_t)cli_int(n, "disk_free") < weights;
    lr_buf_addf(out, "  disk: %s free%s\n", size_text(n, "disk_free", disk),
                is_short ? ", too little for the download" : "");
}

static void print_fit(struct cli_answer *a, struct lr_buf *out)
{
    char weights[32], kv[32], total[32];
    const struct lr_json *c = lr_json_get(a->json, "chosen");
    const struct lr_json *nodes = cli_array(a->json, "nodes");
    if (c == NULL) {
        const char *message = cli_text(&a->arena, a->json, "message");
        if (message[0] != '\0')
            lr_buf_addf(out, "%s\n", message);
        else
            lr_buf_addf(out, "%s is here already: llm-router memory shows what it takes\n",
                        cli_text(&a->arena, a->json, "id"));
        return;
    }
    const char *file = cli_text(&a->arena, c, "filename");
    lr_buf_addf(out, "%s: %s: %s\n", cli_text(&a->arena, a->json, "id"),
                file[0] != '\0' ? file : cli_text(&a->arena, c, "format"),
                cli_text(&a->arena, c, "why"));
    lr_buf_addf(out, "weights %s, KV cache %s (%lld tokens, %lld at a time), in all %s\n",
                size_text(c, "weight_bytes", weights), size_text(c, "kv_bytes", kv),
                (long long)cli_int(a->json, "context"), (long long)cli_int(a->json, "users"),
                size_text(c, "total_bytes", total));
    for (uint32_t i = 0; nodes != NULL && i < nodes->count; i++)
        put_node(a, &nodes->items[i], (uint64_t)cli_int(c, "weight_bytes"),
                 cli_bool(c, "has_experts"), out);
}

/* Without a name: what each node has. */
static void print_fleet(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *nodes = cli_array(a->json, "nodes");
    if (nodes == NULL || nodes->count == 0)
        lr_buf_add_z(out, "No node has joined: llm-router nodes token\n");
    for (uint32_t i = 0; nodes != NULL && i < nodes->count; i++) {
        const struct lr_json *n = &nodes->items[i], *pools = cli_array(n, "memory");
        if (!cli_bool(n, "online"))
            continue;
        for (uint32_t k = 0; pools != NULL && k < pools->count; k++) {
            const struct lr_json *p = &pools->items[k];
            char free_text[32], total[32];
            uint64_t all = (uint64_t)cli_int(p, "total"), used = (uint64_t)cli_int(p, "used");
            lr_format_size(all > used ? all - used : 0, free_text);
            lr_format_size(all, total);
            lr_buf_addf(out, "%s  %s: %s of %s free\n", cli_text(&a->arena, n, "name"),
                        cli_text(&a->arena, p, "title"), free_text, total);
        }
    }
    lr_buf_add_z(out, "llm-router fit MODEL tells what a model would take\n");
}

static lr_code run_fit(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf out;
    if (lr_settings_positional_count(s) == 0)
        return cli_show(s, "/v0/nodes", print_fleet, err);
    lr_buf_init(&out, 1 << 20);
    lr_code code = cli_ask_resolve(s, lr_settings_positional(s, 0), &a, err);
    if (code == LR_OK)
        print_fit(&a, &out);
    if (code == LR_OK)
        code = cli_report(s, &a, &out, err);
    cli_answer_free(&a);
    lr_buf_free(&out);
    return code;
}

const struct cli_command cli_command_fit = {
    .name = "fit",
    .summary = "Tell whether a model would run here, before anything is downloaded",
    .arguments = "[MODEL]",
    .details =
        "For each node: the engine, whether weights and KV cache fit and what would be "
        "unloaded\n"
        "for them, the largest context, the speed to expect and the free disk. Without MODEL:\n"
        "the memory of the nodes.\n"
        "  llm-router fit hf.co/org/name:Q4_K_M --context 65536 --users 4",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 1,
    .run = run_fit,
};
