/* net/json.h - an answer that is a JSON object.
 *
 *     struct net_json json;
 *     struct lr_json_writer *w = net_json_begin(&json, 4096);
 *     lr_json_member_u64(w, "models", count);
 *     return net_json_send(&json, req, 200, err);
 */
#ifndef NET_JSON_H
#define NET_JSON_H

#include "base/json.h"
#include "net/request.h"

struct net_json {
    struct lr_buf body;
    struct lr_json_writer writer;
};

/* Opens the object; the answer has at most `limit` bytes. */
struct lr_json_writer *net_json_begin(struct net_json *json, size_t limit);
/* Closes the object, answers with it and frees it.  INTERNAL: it has grown too large, and the
 * request is still to be answered. */
LR_MUST_USE lr_code net_json_send(struct net_json *json, struct net_request *req, int status,
                                  struct lr_error *err);

#endif
