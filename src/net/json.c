#include "net/json.h"

struct lr_json_writer *net_json_begin(struct net_json *json, size_t limit)
{
    lr_buf_init(&json->body, limit);
    lr_json_writer_init(&json->writer, &json->body);
    lr_json_begin_object(&json->writer);
    return &json->writer;
}

void net_json_send(struct net_json *json, struct net_request *req, int status)
{
    lr_json_end_object(&json->writer);
    if (json->body.failed)
        net_refuse(req, LR_INTERNAL, "the answer is larger than %zu bytes", json->body.limit);
    else
        net_respond(req, status, "application/json", lr_buf_str(&json->body));
    lr_buf_free(&json->body);
}
