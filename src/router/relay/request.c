#include "router/relay/request.h"

#include "router/fleet/nodes.h"

const char *router_caller_id(const struct router_caller *caller)
{
    return caller->key != NULL    ? caller->key->id
           : caller->node != NULL ? caller->node->id
                                  : "local";
}

const char *router_caller_name(const struct router_caller *caller)
{
    const struct router_key *key = caller->key;
    return key != NULL && key->person[0] != '\0' ? key->person : router_caller_id(caller);
}

struct router_actor router_actor(struct net_request *req)
{
    const struct router_access *access = router_access(req);
    return (struct router_actor){router_caller_name(&access->caller), access->caller.name,
                                 access->from};
}
