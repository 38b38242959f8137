/* cli/memory.c - llm-router memory: who holds a node's memory, for people. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "net/client.h"

enum { ANSWER_BYTES = 4 << 20 };

static const struct lr_setting flags[] = {
    {.name = "node",
     .type = LR_SETTING_STRING,
     .fallback = "http://127.0.0.1:11681",
     .value = "URL",
     .help = "the node to ask"},
    {.name = "model",
     .type = LR_SETTING_STRING,
     .value = "ID",
     .help = "also say what loading this model would evict"},
    {.name = "secret",
     .type = LR_SETTING_STRING,
     .secret = true,
     .help = "the node's node-secret, where it has one"},
    {.name = "json",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the node's answer as it is"},
};

/* One question, one answer, and the loop ends. */
struct question {
    struct net_loop *loop;
    struct lr_arena arena;
    struct lr_str body; /* in the arena */
    int status;
    struct lr_error error;
};

static void on_answer(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct question *q = arg;
    if (err != NULL) {
        q->error = *err;
    } else {
        q->status = reply->status;
        q->body = lr_str(lr_arena_copy(&q->arena, reply->body), reply->body.len);
    }
    net_loop_stop(q->loop);
}

static lr_code fetch(struct question *q, const char *url, const char *secret,
                     struct lr_error *err)
{
    struct net_client *client = NULL;
    char bearer[600];
    struct net_header header = {.name = LR_STR_LIT("Authorization")};
    lr_code code = net_loop_create(&q->loop, err);
    if (code == LR_OK)
        code = net_client_create(q->loop, &(struct net_client_config){0}, &client, err);
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", secret != NULL ? secret : "");
    header.value = lr_str_z(bearer);
    struct net_call_config call = {
        .url = url,
        .headers = &header,
        .header_count = secret != NULL,
        .max_response_bytes = ANSWER_BYTES,
    };
    if (code == LR_OK)
        code = net_fetch(client, &call, on_answer, q, NULL, err);
    if (code == LR_OK) {
        net_loop_run(q->loop);
        if (q->error.code != LR_OK)
            code = lr_fail(err, q->error.code, "%s", q->error.text);
    }
    net_client_destroy(client);
    net_loop_destroy(q->loop);
    return code;
}

static void put_size(struct lr_buf *out, const struct lr_json *object, const char *key)
{
    uint64_t bytes = 0;
    char text[32];
    (void)lr_json_u64(lr_json_get(object, key), &bytes);
    lr_format_size(bytes, text);
    lr_buf_addf(out, "%12s", text);
}

static struct lr_str text_of(const struct lr_json *object, const char *key)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(object, key), &text);
    return text;
}

static void put_pool(struct lr_buf *out, const struct lr_json *pool)
{
    uint64_t percent = 0;
    (void)lr_json_u64(lr_json_get(pool, "limit_percent"), &percent);
    lr_buf_addf(out, LR_STR_FMT "  total", LR_STR_ARG(text_of(pool, "title")));
    put_size(out, pool, "total");
    lr_buf_add_z(out, "  in use");
    put_size(out, pool, "used");
    lr_buf_addf(out, "  limit %" PRIu64 " %%  free for models", percent);
    put_size(out, pool, "free");
    lr_buf_add_char(out, '\n');
    const struct lr_json *claims = lr_json_get(pool, "claims");
    if (!lr_json_is(claims, LR_JSON_ARRAY) || claims->count == 0)
        return;
    lr_buf_addf(out, "  %-32s %-7s %12s%12s%12s%12s\n", "model", "state", "reserved",
                "measured", "weights", "KV in use");
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct lr_json *c = &claims->items[i];
        lr_buf_addf(out, "  %-32.*s %-7.*s ", LR_STR_ARG(text_of(c, "model")),
                    LR_STR_ARG(text_of(c, "kind")));
        put_size(out, c, "reserved");
        put_size(out, c, "measured");
        put_size(out, c, "weights");
        put_size(out, c, "kv_in_use");
        lr_buf_add_char(out, '\n');
    }
}

static void put_plan(struct lr_buf *out, const struct lr_json *load)
{
    if (load == NULL)
        return;
    lr_buf_addf(out, "loading " LR_STR_FMT ": " LR_STR_FMT, LR_STR_ARG(text_of(load, "model")),
                LR_STR_ARG(text_of(load, "plan")));
    const struct lr_json *evicts = lr_json_get(load, "evicts");
    for (uint32_t i = 0; lr_json_is(evicts, LR_JSON_ARRAY) && i < evicts->count; i++) {
        struct lr_str id = {0};
        (void)lr_json_str(&evicts->items[i], &id);
        lr_buf_addf(out, "%s" LR_STR_FMT, i == 0 ? ", evicting " : ", ", LR_STR_ARG(id));
    }
    lr_buf_add_char(out, '\n');
}

static lr_code show(struct question *q, bool as_json, struct lr_error *err)
{
    const struct lr_json *root;
    struct lr_buf out;
    lr_code code = lr_json_parse(&q->arena, q->body, NULL, &root, err);
    if (code != LR_OK)
        return lr_fail_prefix(err, "the node's answer is not JSON");
    if (q->status != 200)
        return lr_fail(err, LR_UPSTREAM, "the node answers %d: " LR_STR_FMT, q->status,
                       LR_STR_ARG(text_of(lr_json_get(root, "error"), "message")));
    lr_buf_init(&out, ANSWER_BYTES);
    if (as_json) {
        lr_buf_add_str(&out, q->body);
        lr_buf_add_char(&out, '\n');
    } else {
        const struct lr_json *pools = lr_json_get(root, "pools");
        for (uint32_t i = 0; lr_json_is(pools, LR_JSON_ARRAY) && i < pools->count; i++)
            put_pool(&out, &pools->items[i]);
        put_plan(&out, lr_json_get(root, "load"));
    }
    code = cli_print(&out, err);
    lr_buf_free(&out);
    return code;
}

/* A model's id as a query value. */
static void add_escaped(struct lr_buf *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            lr_buf_add_char(out, *text);
        else
            lr_buf_addf(out, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

static lr_code run(const struct lr_settings *settings, struct lr_error *err)
{
    struct question q = {0};
    struct lr_buf url;
    const char *model = lr_settings_str(settings, "model");
    lr_arena_init(&q.arena, 16 * (size_t)ANSWER_BYTES);
    lr_buf_init(&url, 8192);
    lr_buf_addf(&url, "%s/v0/memory", lr_settings_str(settings, "node"));
    if (model != NULL) {
        lr_buf_add_z(&url, "?model=");
        add_escaped(&url, model);
    }
    lr_code code = fetch(&q, lr_buf_z(&url), lr_settings_str(settings, "secret"), err);
    if (code == LR_OK)
        code = show(&q, lr_settings_bool(settings, "json"), err);
    lr_buf_free(&url);
    lr_arena_free(&q.arena);
    return code;
}

const struct cli_command cli_command_memory = {
    .name = "memory",
    .summary = "Show who holds a node's memory and what a load would evict",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run,
};
