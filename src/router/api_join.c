/* router/api_join.c - nodes join and beat.
 *
 * Who joins has shown a token, or its own secret; what it says of itself is checked here,
 * before the router sends anything to the address it names.
 */
#include <stdio.h>

#include "net/settings.h"
#include "net/url.h"
#include "router/api.h"
#include "router/dispatch.h"
#include "router/live.h"

enum { BODY_BYTES = 4 << 20, BEAT_MS = 1000, SECRET_LEAST = 32 };

/* ---- join ---- */

/* A GPU has memory that the node's driver told it of. */
static bool has_gpu_memory(const struct wire_beat *state)
{
    for (size_t i = 0; i < state->pool_count; i++)
        if (!lr_str_eq_z(state->pools[i].name, "ram") && state->pools[i].total != 0)
            return true;
    return false;
}

/* a node without a GPU is for development, and only where the operator said so. */
static lr_code check_device(const struct router *r, const struct wire_join *join,
                            struct lr_error *err)
{
    struct lr_str name = lr_str_sub(join->name.len != 0 ? join->name : join->node_id, 0, 60);
    bool is_cpu = lr_str_eq_z(join->device, "cpu"), is_cuda = lr_str_eq_z(join->device, "cuda");
    if (!is_cpu && !is_cuda && !lr_str_eq_z(join->device, "metal"))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"device\" must be cuda, metal or cpu, not \"" LR_STR_FMT "\"",
                       LR_STR_ARG(lr_str_sub(join->device, 0, 30)));
    if (is_cpu && !r->allows_cpu_nodes)
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "node " LR_STR_FMT " has no GPU (it runs with --device cpu): start the "
                       "router with --allow-cpu-nodes to take it for development",
                       LR_STR_ARG(name));
    if (is_cuda && !has_gpu_memory(&join->state))
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "node " LR_STR_FMT " says cuda but lists no GPU with memory: look at "
                       "nvidia-smi there (llm-router doctor)",
                       LR_STR_ARG(name));
    return LR_OK;
}

static lr_code choose_url(const struct router *r, const struct net_request *req,
                          const struct wire_join *join, char *out, size_t size,
                          struct lr_error *err)
{
    struct net_url url;
    const char *remote = net_request_remote(req);
    bool is_v6 = strchr(remote, ':') != NULL;
    if (join->url.len != 0)
        (void)snprintf(out, size, LR_STR_FMT, LR_STR_ARG(lr_str_sub(join->url, 0, size - 1)));
    else
        (void)snprintf(out, size, "%s://%s%s%s:%u", join->has_tls ? "https" : "http",
                       is_v6 ? "[" : "", remote, is_v6 ? "]" : "", join->port);
    while (out[0] != '\0' && out[strlen(out) - 1] == '/')
        out[strlen(out) - 1] = '\0';
    lr_code code = net_url_parse(out, &url, err);
    if (code == LR_OK && (url.target.len > 1 || url.port == 0))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "\"%s\" must be a URL without a path", out);
    if (code == LR_OK)
        return net_settings_check_url(r->settings, "the node", out, err);
    return lr_fail_prefix(err, "the node's url");
}

/* It becomes part of URLs. */
static bool is_plain_id(struct lr_str id)
{
    bool ok = id.len >= 8 && id.len <= 40;
    for (size_t i = 0; ok && i < id.len; i++) {
        char c = id.ptr[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    }
    return ok;
}

static lr_code check_join(const struct router *r, const struct router_access *access,
                          const struct wire_join *join, struct lr_error *err)
{
    if (!is_plain_id(join->node_id))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"node_id\" must have 8 to 40 letters, digits, '-' or '_'");
    for (size_t i = 0; i < join->name.len; i++)
        if ((unsigned char)join->name.ptr[i] < 0x20 || join->name.ptr[i] == 0x7f)
            return lr_fail(err, LR_INVALID_ARGUMENT, "\"name\" holds a control character");
    if (join->secret.len < SECRET_LEAST || join->secret.len > 90)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"secret\" must have %d to 90 letters",
                       SECRET_LEAST);
    /* With its own secret a node may come back as itself, not as another. */
    if (access->caller.node != NULL && !lr_str_eq_z(join->node_id, access->caller.node->id))
        return lr_fail(err, LR_PERMISSION_DENIED, "this secret belongs to node %s",
                       access->caller.node->id);
    return check_device(r, join, err);
}

/* Every router of the fleet: a node beats to each. */
static void put_fleet(const struct router *r, struct lr_json_writer *w)
{
    lr_json_key(w, "routers");
    lr_json_begin_array(w);
    for (size_t i = 0; i < r->fleet_count; i++)
        lr_json_put_z(w, r->fleet[i]);
    lr_json_end_array(w);
}

static void write_joined(struct router *r, const struct router_node *node, struct lr_buf *body)
{
    struct lr_json_writer w;
    lr_buf_init(body, BODY_BYTES);
    lr_json_writer_init(&w, body);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "node_id", node->id);
    lr_json_member_u64(&w, "protocol", WIRE_FLEET_PROTOCOL);
    lr_json_member_z(&w, "version", r->version);
    lr_json_member_u64(&w, "beat_ms", BEAT_MS);
    lr_json_member_u64(&w, "registry_version", r->registry.version);
    put_fleet(r, &w);
    lr_json_end_object(&w);
}

void router_api_join(struct router *r, struct net_request *req)
{
    struct router_access *access = router_access(req);
    struct wire_join join;
    struct lr_error err;
    struct lr_buf body;
    struct router_node *node = NULL;
    char url[288], id[48];
    lr_code code = wire_join_parse(net_request_arena(req), net_request_body(req), &join, &err);
    if (code == LR_UNSUPPORTED) /* another protocol: both versions are named */
        code = lr_fail_prefix(&err, "this router is llm-router %s", r->version);
    if (code == LR_OK)
        code = check_join(r, access, &join, &err);
    if (code == LR_OK)
        code = choose_url(r, req, &join, url, sizeof(url), &err);
    if (code != LR_OK) {
        lr_log_warn(NULL, "node.refused from=%s reason=%s", net_request_remote(req), err.text);
        net_respond_error(req, &err);
        return;
    }
    router_lock(r);
    code = router_nodes_join(&r->nodes, &join, url, lr_clock_ms(NULL), lr_clock_wall_ms(NULL),
                             &node, &err);
    if (code == LR_OK) {
        router_node_store(r, node);
        write_joined(r, node, &body);
        (void)snprintf(id, sizeof(id), "%s", node->id);
        router_live_node(r, node, "node.joined");
        lr_log_info(NULL, "node.joined node=%s id=%s url=%s device=%s models=%zu", node->name,
                    node->id, node->url, node->device, join.state.model_count);
        router_pump_all(r);
    }
    router_unlock(r);
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    router_respond_json(req, 200, &body);
    if (r->on_node != NULL)
        r->on_node(r->on_node_arg, id);
}

/* ---- beat ---- */

void router_api_beat(struct router *r, struct net_request *req)
{
    struct router_access *access = router_access(req);
    struct lr_str id = access->tail;
    struct wire_beat beat;
    struct lr_error err;
    struct lr_buf reply;
    struct lr_json_writer w;
    lr_code code = wire_beat_parse(net_request_arena(req), net_request_body(req), &beat, &err);
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    router_lock(r);
    struct router_node *node = router_nodes_find(&r->nodes, id);
    if (node == NULL || (access->caller.node != node && access->caller.role != ROUTER_ADMIN)) {
        code = lr_fail(&err, LR_NOT_FOUND, "this router does not know the node: join again");
    } else if (node->version[0] == '\0') {
        code = lr_fail(&err, LR_NOT_FOUND, "this router was restarted: join again");
    } else {
        bool was_online = node->is_online;
        code = router_nodes_beat(node, &beat, lr_clock_ms(NULL), &err);
        if (code == LR_OK && !was_online) {
            lr_log_info(NULL, "node.back node=%s", node->name);
            router_live_node(r, node, "node.online");
        }
        if (code == LR_OK) {
            router_live_beat(r, node, &beat);
            router_pump_all(r);
        }
    }
    w = router_json_begin(&reply, 8192);
    lr_json_member_u64(&w, "registry_version", r->registry.version);
    put_fleet(r, &w);
    lr_json_end_object(&w);
    router_unlock(r);
    if (code != LR_OK) {
        lr_buf_free(&reply);
        net_respond_error(req, &err);
    } else {
        router_respond_json(req, 200, &reply);
    }
}
