/* node/http/api_count.c - POST /v0/models/{id}/count: how many tokens a prompt has.
 *
 * A process of its own asks the engine (node/workers/counter.h).
 */
#include "node/http/api.h"
#include "node/models/models.h"
#include "node/workers/counter.h"
#include "wire/open.h"

lr_code node_api_model_count(struct node *node, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body;
    const struct lr_segment *segments;
    size_t count;
    struct node_model *m = node_need_model(node, node_api_segment(req, 2), err);
    if (m == NULL)
        return err->code;
    lr_code code =
        lr_json_parse(net_request_arena(req), net_request_body(req), NULL, &body, err);
    if (code == LR_OK)
        code = wire_segments_decode(net_request_arena(req), lr_json_get(body, "segments"),
                                    &segments, &count, err);
    return code == LR_OK ? node_counter_ask(m, req, segments, count, err) : code;
}
