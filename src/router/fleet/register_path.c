/* router/fleet/register_path.c - POST /v0/models/register with "path": a model that lies on a
 * node.
 *
 * A node's listed model is taken by its name.  Any other path is a folder below a node's
 * models roots: the online nodes are asked in turn to inspect it, and the first that finds
 * a model there settles the registration (it reports template and tokens with its next
 * word).  Where none does, the answer of the node that came furthest is told: a folder
 * with a fault says more than a folder that is not there.
 */
#include <stdio.h>

#include "router/fleet/ask.h"
#include "router/fleet/register.h"
#include "router/http/api.h"
#include "wire/reply.h"

enum { INSPECT_MS = 20000, BODY_BYTES = 64 << 10 };

struct inspecting {
    struct router *router;
    struct net_request *req;
    struct lr_str path, name, format, chat_template; /* in the request's arena */
    char id[ROUTER_ID_MAX];
    char found_format[16];
    struct router_need need;
    const struct router_target *nodes; /* in the request's arena */
    size_t count, at;
    struct lr_error fault; /* code OK: no node has said anything */
    int fault_status;
};

static void ask_next(struct inspecting *a);

static void registered(void *arg, const struct lr_error *err)
{
    struct inspecting *a = arg;
    if (err != NULL)
        net_respond_error(a->req, err);
    else
        router_answer_registered(a->router, a->req, a->id, lr_str(NULL, 0), &a->need);
}

static void settle(struct inspecting *a)
{
    struct router_new_model model = {
        .id = lr_str_z(a->id),
        .source = LR_STR_LIT("local"),
        .format = lr_str_z(a->found_format),
        .path = a->path,
        .chat_template = a->chat_template,
        .created_ms = lr_clock_wall_ms(NULL),
    };
    router_register(a->router, &model, router_caller_name(&router_access(a->req)->caller),
                    net_request_loop(a->req), registered, a);
}

/* A fault in the folder (400) says more than "it is not there". */
static void keep_fault(struct inspecting *a, const struct lr_error *err,
                       const struct net_reply *reply)
{
    const char *name = a->nodes[a->at].name;
    bool is_fault = err == NULL && reply->status == 400;
    if (a->fault.code != LR_OK && (a->fault_status == 400 || !is_fault))
        return;
    a->fault_status = err == NULL ? reply->status : 0;
    if (err != NULL) {
        (void)lr_fail(&a->fault, err->code, "node %s: %s", name, err->text);
        return;
    }
    struct lr_str message = wire_refusal_message(net_request_arena(a->req), reply->body);
    lr_code code = is_fault               ? LR_INVALID_ARGUMENT
                   : reply->status == 409 ? LR_CONFLICT
                   : reply->status == 403 ? LR_PERMISSION_DENIED
                   : reply->status == 404 ? LR_NOT_FOUND
                                          : LR_UPSTREAM;
    (void)lr_fail(&a->fault, code, "node %s: " LR_STR_FMT, name,
                  LR_STR_ARG(lr_str_sub(message, 0, 400)));
}

static void on_inspected(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct inspecting *a = arg;
    const struct lr_json *body = NULL;
    struct lr_str id, format = {0};
    if (err == NULL && reply->status == 200 &&
        lr_json_parse(net_request_arena(a->req), reply->body, NULL, &body, NULL) == LR_OK &&
        lr_json_str(lr_json_get(body, "id"), &id)) {
        (void)lr_json_str(lr_json_get(body, "format"), &format);
        (void)lr_json_u64(lr_json_get(body, "weight_bytes"), &a->need.weights);
        (void)lr_json_u64(lr_json_get(body, "kv_bytes"), &a->need.kv);
        (void)lr_json_u64(lr_json_get(body, "context"), &a->need.tokens);
        (void)snprintf(a->id, sizeof(a->id), LR_STR_FMT,
                       LR_STR_ARG(lr_str_sub(id, 0, sizeof(a->id) - 1)));
        (void)snprintf(a->found_format, sizeof(a->found_format), LR_STR_FMT,
                       LR_STR_ARG(lr_str_sub(format, 0, sizeof(a->found_format) - 1)));
        settle(a);
        return;
    }
    keep_fault(a, err, reply);
    a->at++;
    ask_next(a);
}

static void ask_next(struct inspecting *a)
{
    struct lr_error err;
    struct lr_buf body;
    struct lr_json_writer w;
    if (a->at == a->count) {
        if (a->fault.code == LR_OK)
            (void)lr_fail(&a->fault, LR_UNAVAILABLE,
                          "no node is online that could look at \"" LR_STR_FMT "\"",
                          LR_STR_ARG(lr_str_sub(a->path, 0, 200)));
        net_respond_error(a->req, &a->fault);
        return;
    }
    w = router_json_begin(&body, BODY_BYTES);
    lr_json_member_str(&w, "path", a->path);
    if (a->name.len != 0)
        lr_json_member_str(&w, "name", a->name);
    if (a->format.len != 0)
        lr_json_member_str(&w, "format", a->format);
    lr_json_end_object(&w);
    struct router_question question = {.method = "POST",
                                       .path = "/v0/models/inspect",
                                       .body = lr_buf_str(&body),
                                       .wait_ms = INSPECT_MS};
    lr_code code = body.failed ? lr_fail(&err, LR_INVALID_ARGUMENT, "\"path\" is too long")
                               : router_ask(router_loop_of(a->router, a->req), &a->nodes[a->at],
                                            &question, on_inspected, a, &err);
    lr_buf_free(&body);
    if (code != LR_OK)
        net_respond_error(a->req, &err);
}

/* A model that an online node lists under this very name. */
static bool find_listed(struct inspecting *a)
{
    struct router *r = a->router;
    char folded[ROUTER_ID_MAX];
    const struct router_replica *replica = NULL;
    if (a->name.len != 0 || a->path.len >= ROUTER_ID_MAX)
        return false;
    router_lock(r);
    for (size_t i = 0; i < r->nodes.count && replica == NULL; i++)
        if (router_node_is_online(r->nodes.all[i]))
            replica = router_node_replica(r->nodes.all[i], router_fold(a->path, folded));
    if (replica != NULL) {
        memcpy(a->id, replica->id, sizeof(a->id));
        memcpy(a->found_format, replica->format, sizeof(a->found_format));
        a->need = (struct router_need){replica->weight_bytes, replica->kv_bytes,
                                       replica->context_tokens};
    }
    router_unlock(r);
    return replica != NULL;
}

static lr_code check(struct inspecting *a, const struct lr_json *body, struct lr_error *err)
{
    static const char *const of_repo[] = {"revision", "filename"};
    for (size_t i = 0; i < sizeof(of_repo) / sizeof(of_repo[0]); i++)
        if (lr_json_get(body, of_repo[i]) != NULL)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "\"%s\" goes with \"repo\", not with "
                           "\"path\"",
                           of_repo[i]);
    if (a->format.len != 0 && !lr_str_eq_z(a->format, "safetensors") &&
        !lr_str_eq_z(a->format, "gguf"))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"format\" must be safetensors or gguf, not \"" LR_STR_FMT "\"",
                       LR_STR_ARG(lr_str_sub(a->format, 0, 60)));
    lr_code code = router_check_template(a->chat_template, err);
    if (code != LR_OK || a->name.len == 0)
        return code;
    code = router_check_model_id(a->name, err);
    return code == LR_OK ? router_check_free(a->router, a->name, err) : code;
}

void router_register_path(struct router *r, struct net_request *req, const struct lr_json *body)
{
    struct lr_error err;
    size_t offline;
    struct inspecting *a = lr_arena_zalloc(net_request_arena(req), sizeof(*a));
    if (a == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a registration");
        return;
    }
    a->router = r;
    a->req = req;
    if (!router_read_text(req, body, "path", &a->path) ||
        !router_read_text(req, body, "name", &a->name) ||
        !router_read_text(req, body, "chat_template", &a->chat_template) ||
        !router_read_text(req, body, "format", &a->format))
        return;
    while (a->path.len > 1 && a->path.ptr[a->path.len - 1] == '/')
        a->path.len--;
    if (check(a, body, &err) != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    if (find_listed(a)) {
        if (a->format.len != 0 && a->found_format[0] != '\0' &&
            !lr_str_eq_z(a->format, a->found_format)) {
            router_refuse(req, LR_INVALID_ARGUMENT, "the model is %s, not " LR_STR_FMT,
                          a->found_format, LR_STR_ARG(a->format));
            return;
        }
        a->path = lr_str(NULL, 0); /* the node finds it by itself */
        settle(a);
        return;
    }
    router_lock(r);
    a->nodes = router_targets(r, lr_str(NULL, 0), net_request_arena(req), &a->count, &offline);
    router_unlock(r);
    ask_next(a);
}
