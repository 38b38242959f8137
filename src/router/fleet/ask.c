#include "router/fleet/ask.h"

#include <stdio.h>

enum { CONNECT_MS = 3000 };

void router_target_set(struct router_target *out, const struct router_node *node)
{
    memcpy(out->id, node->id, sizeof(out->id));
    memcpy(out->name, node->name, sizeof(out->name));
    memcpy(out->url, node->url, sizeof(out->url));
    memcpy(out->secret, node->secret, sizeof(out->secret));
}

struct router_target *router_targets(const struct router_nodes *nodes, struct lr_str folded,
                                     struct lr_arena *arena, size_t *count, size_t *offline)
{
    struct router_target *list = lr_arena_array(arena, nodes->count + 1, sizeof(*list));
    *count = *offline = 0;
    for (size_t i = 0; list != NULL && i < nodes->count; i++) {
        const struct router_node *node = nodes->all[i];
        const struct router_replica *replica =
            folded.len != 0 ? router_node_replica(node, folded) : NULL;
        if (router_node_is_removed(node) || (folded.len != 0 && replica == NULL))
            continue;
        if (router_node_is_online(node))
            router_target_set(&list[(*count)++], node);
        else
            (*offline)++;
    }
    return list;
}

lr_code router_ask(struct net_client *client, const struct router_target *to,
                   const struct router_question *question, net_fetch_fn fn, void *arg,
                   struct lr_error *err)
{
    char url[1600];
    bool is_post = strcmp(question->method, "POST") == 0;
    int n = snprintf(url, sizeof(url), "%s%s", to->url, question->path);
    if (n < 0 || (size_t)n >= sizeof(url))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the question to node %s is too long",
                       to->name);
    struct net_call_config config = {
        .method = question->method,
        .url = url,
        .bearer = to->secret,
        .content_type = is_post ? "application/json" : NULL,
        .body = !is_post                  ? lr_str(NULL, 0)
                : question->body.len != 0 ? question->body
                                          : LR_STR_LIT("{}"),
        .response_timeout_ms = question->wait_ms,
        .connect_timeout_ms = CONNECT_MS,
    };
    return net_fetch(client, &config, fn, arg, NULL, err);
}
