/* cli/memory.c - llm-router memory: prints the memory use of a node. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"

enum { ANSWER_BYTES = 4 << 20 };

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "node",
     .type = LR_SETTING_STRING,
     .value = "NODE",
     .help = "name or id of the node; or its URL, to ask the node without a router"},
    {.name = "model",
     .type = LR_SETTING_STRING,
     .value = "ID",
     .help = "also show which models would be evicted to load this model"},
    {.name = "secret",
     .type = LR_SETTING_STRING,
     .secret = true,
     .help = "the node-secret, if --node is a URL; default: LLM_ROUTER_NODE_SECRET"},
    CLI_JSON_FLAG,
};

static void put_size(struct lr_buf *out, const struct lr_json *object, const char *key)
{
    uint64_t bytes = 0;
    char text[32];
    (void)lr_json_u64(lr_json_get(object, key), &bytes);
    lr_format_size(bytes, text);
    lr_buf_addf(out, "%12s", text);
}

static void cli_memory_put_text(struct lr_buf *out, const struct lr_json *object,
                                const char *key, unsigned columns)
{
    struct lr_str text = {0};
    struct lr_buf visible;
    lr_buf_init(&visible, ANSWER_BYTES);
    (void)lr_json_str(lr_json_get(object, key), &text);
    cli_put(&visible, text);
    lr_buf_addf(out, "%-*s", (int)columns, lr_buf_z(&visible));
    lr_buf_free(&visible);
}

static void put_pool(struct lr_buf *out, const struct lr_json *pool)
{
    uint64_t percent = 0;
    (void)lr_json_u64(lr_json_get(pool, "limit_percent"), &percent);
    cli_memory_put_text(out, pool, "title", 0);
    lr_buf_add_z(out, "  total");
    put_size(out, pool, "total");
    lr_buf_add_z(out, "  in use");
    put_size(out, pool, "used");
    lr_buf_addf(out, "  limit %" PRIu64 " %%  free for models", percent);
    put_size(out, pool, "free");
    lr_buf_add_z(out, "  reclaimable");
    put_size(out, pool, "reclaimable");
    lr_buf_add_char(out, '\n');
    const struct lr_json *claims = lr_json_get(pool, "claims");
    if (!lr_json_is(claims, LR_JSON_ARRAY) || claims->count == 0)
        return;
    lr_buf_addf(out, "  %-32s %-7s %12s%12s%12s%12s%12s%12s\n", "model", "state", "reserved",
                "measured", "weights", "KV in use", "KV cached", "reclaimable");
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct lr_json *c = &claims->items[i];
        lr_buf_add_z(out, "  ");
        cli_memory_put_text(out, c, "model", 33);
        cli_memory_put_text(out, c, "kind", 8);
        put_size(out, c, "reserved");
        put_size(out, c, "measured");
        put_size(out, c, "weights");
        put_size(out, c, "kv_in_use");
        put_size(out, c, "kv_cached");
        put_size(out, c, "reclaimable");
        lr_buf_add_char(out, '\n');
    }
}

static void put_plan(struct lr_buf *out, const struct lr_json *load)
{
    if (load == NULL)
        return;
    lr_buf_add_z(out, "loading ");
    cli_memory_put_text(out, load, "model", 0);
    lr_buf_add_z(out, ": ");
    cli_memory_put_text(out, load, "plan", 0);
    const struct lr_json *evicts = lr_json_get(load, "evicts");
    for (uint32_t i = 0; lr_json_is(evicts, LR_JSON_ARRAY) && i < evicts->count; i++) {
        struct lr_str id = {0};
        (void)lr_json_str(&evicts->items[i], &id);
        lr_buf_add_z(out, i == 0 ? ", evicting " : ", ");
        cli_put(out, id);
    }
    lr_buf_add_char(out, '\n');
}

static lr_code cli_memory_show(const struct cli_answer *a, bool as_json, struct lr_error *err)
{
    struct lr_buf out;
    lr_buf_init(&out, ANSWER_BYTES);
    if (as_json) {
        lr_buf_add_str(&out, a->body);
        lr_buf_add_char(&out, '\n');
    } else {
        const struct lr_json *pools = lr_json_get(a->json, "pools");
        for (uint32_t i = 0; lr_json_is(pools, LR_JSON_ARRAY) && i < pools->count; i++)
            put_pool(&out, &pools->items[i]);
        put_plan(&out, lr_json_get(a->json, "load"));
    }
    lr_code code = cli_print(&out, err);
    lr_buf_free(&out);
    return code;
}

/* Other users can read a command line: the environment is the better place. */
static const char *secret_of(const struct lr_settings *settings)
{
    const char *given = lr_settings_str(settings, "secret");
    const char *kept = getenv("LLM_ROUTER_NODE_SECRET");
    return given != NULL || kept == NULL || kept[0] == '\0' ? given : kept;
}

static lr_code cli_memory_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct cli_answer a = {0};
    struct lr_buf path;
    char id[CLI_ID_MAX];
    const char *model = lr_settings_str(settings, "model");
    const char *node = lr_settings_str(settings, "node");
    bool is_direct = node != NULL && strstr(node, "://") != NULL;
    lr_code code = is_direct ? LR_OK : cli_choose_node(settings, id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 8192);
    if (is_direct)
        lr_buf_add_z(&path, "/v0/memory");
    else
        lr_buf_addf(&path, "/v0/nodes/%s/memory", id);
    if (model != NULL) {
        lr_buf_add_z(&path, "?model=");
        cli_escape(&path, model);
    }
    code = is_direct ? cli_ask_at(settings, node, secret_of(settings), lr_buf_z(&path), &a, err)
                     : cli_ask(settings, "GET", lr_buf_z(&path), NULL, &a, err);
    if (code == LR_OK)
        code = cli_memory_show(&a, lr_settings_bool(settings, "json"), err);
    lr_buf_free(&path);
    cli_answer_free(&a);
    return code;
}

const struct cli_command cli_command_memory = {
    .name = "memory",
    .summary = "Show which models use a node's memory, and which a load would evict",
    .details = "Asks the router for its only node, or for the node that --node names.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = cli_memory_run,
};
