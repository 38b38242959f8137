/* router/register_repo.c - registration from a hub. */
#include "router/api.h"
#include "router/register.h"

void router_register_repo(struct router *r, struct net_request *req, const struct lr_json *body)
{
    (void)r;
    (void)body;
    router_refuse(req, LR_UNSUPPORTED,
                  "this build has no hub client: register a model that lies on a node with "
                  "\"path\"");
}
