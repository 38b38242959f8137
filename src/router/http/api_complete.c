/* router/http/api_complete.c - the routes that generate: a request becomes a call
 * (relay/call.h). */
#include "router/http/api.h"
#include "router/http/state.h"

lr_code router_api_complete(struct router *r, struct net_request *req, struct lr_error *err)
{
    return router_call_begin(&router_loop_of(r, req)->relay, req,
                             chat_codec_of(net_request_path(req)), err);
}
