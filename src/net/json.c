#include "net/json.h"

struct lr_json_writer *net_json_begin(struct net_json *json, size_t limit)
{
    lr_buf_init(&json->body, limit);
    lr_json_writer_init(&json->writer, &json->body);
    lr_json_begin_object(&json->writer);
    return &json->writer;
}

lr_code net_json_send(struct net_json *json, struct net_request *req, int status,
                      struct lr_error *err)
{
    lr_code code = LR_OK;
    lr_json_end_object(&json->writer);
    if (json->body.failed)
        code =
            lr_fail(err, LR_INTERNAL, "the answer is larger than %zu bytes", json->body.limit);
    else
        net_respond(req, status, "application/json", lr_buf_str(&json->body));
    lr_buf_free(&json->body);
    return code;
}
