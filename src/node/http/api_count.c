/* node/http/api_count.c - POST /v0/models/{id}/count: how many tokens a prompt has.
 *
 * A process of its own asks the engine, which reads the model's tokenizer and no weights.  The
 * model need not be loaded, and a loaded one is not disturbed.
 */
#include <stdlib.h>

#include "node/http/api.h"
#include "node/models/models.h"
#include "node/workers/worker.h"
#include "wire/event.h"
#include "wire/open.h"

/* Clients ask for many prompts at once; each takes a process for a moment. */
enum { AT_ONCE_MAX = 32, ANSWER_BYTES = 256 };

struct count {
    struct node_answer answer;    /* first: the argument of the callbacks */
    struct net_request *req;      /* NULL: the caller has left */
    struct node_library *library; /* reference */
};

static unsigned running; /* thread: the node's loop */

static lr_code answer(struct count *c, const char *how, struct lr_error *err)
{
    struct net_json json;
    if (c->answer.has_tokens) {
        lr_json_member_u64(net_json_begin(&json, ANSWER_BYTES), "tokens", c->answer.tokens);
        return net_json_send(&json, c->req, 200, err);
    }
    *err = c->answer.error;
    return err->code != LR_OK
               ? err->code
               : lr_fail(err, LR_INTERNAL, "the engine %s when it counted tokens", how);
}

static void on_exit_of_process(void *arg, const char *how)
{
    struct count *c = arg;
    struct lr_error err;
    running--;
    if (c->req != NULL && answer(c, how, &err) != LR_OK)
        net_respond_error(c->req, &err);
    node_library_unref(c->library);
    free(c);
}

static void on_gone(void *arg)
{
    struct count *c = arg;
    net_stream_abort(c->req);
    c->req = NULL;
}

static lr_code start(struct node_model *model, struct net_request *req, struct wire_open *open,
                     struct lr_error *err)
{
    struct node_library *library = model->engine->library;
    struct count *c = calloc(1, sizeof(*c));
    struct node_proc *proc;
    const struct node_proc_callbacks callbacks = {
        .arg = c, .on_frames = node_answer_on_frames, .on_exit = on_exit_of_process};
    if (c == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory to count tokens");
    lr_code code = node_engine_run(model->models->launcher, library, model->id, WIRE_COUNT,
                                   open, &callbacks, &proc, err);
    if (code != LR_OK) {
        free(c);
        return code;
    }
    c->req = req;
    c->library = node_library_ref(library);
    running++;
    net_request_on_gone(req, on_gone, c);
    return LR_OK;
}

lr_code node_api_model_count(struct node *node, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body;
    struct wire_open open;
    struct node_model *m = node_need_model(node, node_api_segment(req, 2), err);
    if (m == NULL)
        return err->code;
    if (m->engine == NULL || m->state < NODE_MODEL_PRESENT || m->state == NODE_MODEL_FAILED)
        return lr_fail(err, LR_UNAVAILABLE, "the files of \"%s\" are not ready on this node",
                       m->id);
    if (running >= AT_ONCE_MAX)
        return lr_fail(err, LR_UNAVAILABLE, "%d prompts are being counted: try again",
                       AT_ONCE_MAX);
    node_describe_open(m, m->engine->library, NODE_POOL_RAM, 0, &open);
    lr_code code =
        lr_json_parse(net_request_arena(req), net_request_body(req), NULL, &body, err);
    if (code == LR_OK)
        code = wire_segments_decode(net_request_arena(req), lr_json_get(body, "segments"),
                                    &open.segments, &open.segment_count, err);
    return code == LR_OK ? start(m, req, &open, err) : code;
}
