#include "router/handover/known_nodes.h"

#include "base/json.h"
#include "base/log.h"

enum { LINE_BYTES = 64 << 20 }; /* memory for reading one line */

/* ---- writing ---- */

/* A list that cannot be read is left out: the node tells it again with its next join. */
static void describe_stops(const struct router_replica *replica, struct lr_arena *arena,
                           struct wire_fleet_model *out)
{
    const struct lr_json *list = NULL;
    if (replica->stops[0] == '\0' ||
        lr_json_parse(arena, lr_str_z(replica->stops), NULL, &list, NULL) != LR_OK)
        return;
    for (uint32_t i = 0; i < list->count && out->stop_count < WIRE_FLEET_STOPS_MAX; i++)
        out->stop_count += lr_json_str(&list->items[i], &out->stops[out->stop_count]);
}

static void describe_model(const struct router_replica *replica, struct lr_arena *arena,
                           struct wire_fleet_model *out)
{
    const struct router_prompt_info *info = replica->info;
    *out = (struct wire_fleet_model){
        .id = lr_str_z(replica->id),
        .state = lr_str_z(replica->state),
        .reason = lr_str_z(replica->reason.text),
        .can_run = replica->can_run,
        .is_loaded = replica->is_loaded,
        .is_pinned = replica->is_pinned,
        .slots = replica->slots,
        .max_context = replica->max_context,
        .requests = replica->requests,
        .live = replica->live,
        .queued = replica->queued,
        .failures = replica->failures,
        .next_try_ms = replica->next_try_ms,
        .load_ms = (uint64_t)replica->load_ms,
        .prefill_us = (uint64_t)(replica->prefill_ms * 1000),
        .step_us = (uint64_t)(replica->step_ms * 1000),
        .engine = lr_str_z(replica->engine),
        .runtime = lr_str_z(replica->runtime),
        .architecture = lr_str_z(replica->architecture),
        .format = lr_str_z(replica->format),
        .context_tokens = replica->context_tokens,
        .weight_bytes = replica->weight_bytes,
        .kv_bytes = replica->kv_bytes,
    };
    describe_stops(replica, arena, out);
    if (info == NULL)
        return;
    out->chat_template = info->source;
    out->dialect =
        lr_str_z(info->chat.lacks_template ? WIRE_DIALECT_NONE : info->chat.dialect.name);
    out->bos_token = info->chat.bos_token;
    out->eos_token = info->chat.eos_token;
    out->unk_token = info->chat.unk_token;
    out->pad_token = info->chat.pad_token;
    out->sampling = info->chat.sampling;
}

static bool known_nodes_describe(const struct router_node *node, struct lr_arena *arena,
                                 struct wire_join *out)
{
    size_t count = 0;
    while (router_node_replica_at(node, count) != NULL)
        count++;
    struct wire_fleet_model *models = lr_arena_array(arena, count + 1, sizeof(*models));
    struct wire_fleet_pool *pools =
        lr_arena_array(arena, node->pool_count + 1u, sizeof(*pools));
    if (models == NULL || pools == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        describe_model(router_node_replica_at(node, i), arena, &models[i]);
    for (uint32_t i = 0; i < node->pool_count; i++)
        pools[i] = (struct wire_fleet_pool){.name = lr_str_z(node->pools[i].name),
                                            .title = lr_str_z(node->pools[i].title),
                                            .total = node->pools[i].total,
                                            .used = node->pools[i].used};
    *out = (struct wire_join){
        .protocol = node->protocol,
        .version = lr_str_z(node->version),
        .node_id = lr_str_z(node->id),
        .name = lr_str_z(node->name),
        .url = lr_str_z(node->url),
        .device = lr_str_z(node->device),
        .secret = lr_str_z(node->secret),
        .state = {.is_draining = node->is_draining,
                  .models = models,
                  .model_count = count,
                  .pools = pools,
                  .pool_count = node->pool_count,
                  .epoch = node->epoch},
    };
    return true;
}

/* A node that is not online joins again by itself. */
static void known_nodes_write_node(const struct router_node *node, struct lr_buf *out)
{
    struct lr_arena arena;
    struct wire_join join;
    struct lr_json_writer w;
    if (!router_node_is_online(node) || node->secret[0] == '\0')
        return;
    lr_arena_init(&arena, LINE_BYTES);
    if (known_nodes_describe(node, &arena, &join)) {
        lr_json_writer_init(&w, out);
        LR_JSON_ITEM(&w, LR_TEXT("url", node->url), LR_INT("joined_ms", node->joined_ms));
        lr_buf_add_char(out, '\n');
        wire_join_write(out, &join);
        lr_buf_add_char(out, '\n');
    }
    lr_arena_free(&arena);
}

void router_known_nodes_write(const struct router_known_nodes *memory, struct lr_buf *out)
{
    const struct router_node *node;
    lr_buf_add_z(out, "{}\n");
    for (size_t at = 0; (node = router_nodes_next(memory->nodes, &at)) != NULL;)
        known_nodes_write_node(node, out);
}

/* ---- reading ---- */

/* The node joins once more at its next heartbeat: events that its alerts stand on come with
 * that join. */
static void read_node(const struct router_known_nodes *memory, struct lr_arena *arena,
                      struct lr_str where, struct lr_str line, uint64_t now_ms)
{
    const struct lr_json *v = NULL;
    struct router_node *node;
    struct wire_join join;
    struct lr_error err;
    struct lr_str url;
    int64_t joined_ms;
    char text[sizeof(node->url)];
    if (lr_json_parse(arena, where, NULL, &v, NULL) != LR_OK ||
        !lr_json_str(lr_json_get(v, "url"), &url) ||
        !lr_json_i64(lr_json_get(v, "joined_ms"), &joined_ms))
        return;
    LR_COPY(text, url);
    lr_code code = wire_join_parse(arena, line, &join, &err);
    if (code == LR_OK)
        code = router_nodes_join(memory->nodes, &join, text, now_ms, joined_ms, &node, &err);
    if (code == LR_OK)
        node->must_join = true;
    else
        lr_log_warn(LR_LOG_OF(&err), "router.node_not_taken_over url=%s reason=%s", text,
                    err.text);
}

void router_known_nodes_read(const struct router_known_nodes *memory, struct lr_str text,
                             uint64_t now_ms)
{
    struct lr_arena arena;
    struct lr_str line, where = {0};
    lr_arena_init(&arena, LINE_BYTES);
    for (size_t i = 0; lr_str_split(&text, '\n', &line) && line.len != 0; i++) {
        if (i % 2 == 1)
            where = line;
        else if (i != 0)
            read_node(memory, &arena, where, line, now_ms);
        if (i % 2 == 0)
            lr_arena_free(&arena);
    }
    lr_arena_free(&arena);
}
