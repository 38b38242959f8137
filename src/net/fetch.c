/* net/fetch.c - a call whose answer is collected and delivered whole. */
#include "net/client_internal.h"

enum { DEFAULT_LIMIT = 16 << 20 };

struct fetch {
    net_fetch_fn fn;
    void *arg;
    struct net_reply reply;
    struct lr_buf body;
};

static void fetch_free(void *owned)
{
    struct fetch *f = owned;
    lr_buf_free(&f->body);
    free(f);
}

static void on_headers(void *arg, int status, struct net_headers headers)
{
    struct fetch *f = arg;
    f->reply.status = status;
    f->reply.headers = headers;
}

static void on_body(void *arg, struct lr_str bytes)
{
    struct fetch *f = arg;
    lr_buf_add_str(&f->body, bytes);
}

static void fetch_on_done(void *arg, const struct lr_error *err)
{
    struct fetch *f = arg;
    struct lr_error own;
    if (err == NULL && f->body.failed) {
        (void)lr_fail(&own, LR_OUT_OF_RAM, "no memory for an answer of %zu bytes", f->body.len);
        err = &own;
    }
    f->reply.body = lr_buf_str(&f->body);
    if (f->fn != NULL)
        f->fn(f->arg, err, err == NULL ? &f->reply : NULL);
}

lr_code net_fetch(struct net_client *client, const struct net_call_config *config,
                  net_fetch_fn fn, void *arg, struct net_call **out, struct lr_error *err)
{
    struct net_call_config own = *config;
    struct fetch *f = calloc(1, sizeof(*f));
    if (out != NULL)
        *out = NULL;
    if (f == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a call");
    f->fn = fn;
    f->arg = arg;
    if (own.max_response_bytes == 0)
        own.max_response_bytes = DEFAULT_LIMIT;
    own.callbacks = (struct net_call_callbacks){
        .arg = f, .on_headers = on_headers, .on_body = on_body, .on_done = fetch_on_done};
    lr_buf_init(&f->body, (size_t)own.max_response_bytes);
    struct net_call *call = NULL;
    lr_code code = net_call_start(client, &own, &call, err);
    if (code != LR_OK) {
        fetch_free(f);
    } else {
        call->owned = f;
        call->free_owned = fetch_free;
    }
    if (out != NULL)
        *out = call;
    return code;
}
