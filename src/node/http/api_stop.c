/* node/http/api_stop.c - DELETE /v0/generate/{request_id}: whoever asked has enough.
 *
 * The generation's own stream stays open and ends with WIRE_DONE as ever, so that the
 * caller learns the usage; closing that stream instead ends the work just as soon, but
 * nobody is told what it took.
 */
#include "node/http/api.h"

void node_api_generate_stop(struct node *node, struct net_request *req)
{
    struct lr_str id = node_api_segment(req, 2);
    bool found = false;
    for (uint32_t i = 0; i < node->generations.count; i++) {
        struct node_generation *r = node->generations.all[i].item;
        if (r == NULL || !node_generation_is_served(r) || !lr_str_eq(r->ask.request_id, id))
            continue;
        node_generation_stop(r);
        found = true;
    }
    if (found) {
        net_respond(req, 200, "application/json", LR_STR_LIT("{\"stopped\":true}"));
        return;
    }
    struct lr_error err;
    (void)lr_fail(&err, LR_NOT_FOUND, "no generation with this request_id runs here");
    net_respond_error(req, &err);
}
