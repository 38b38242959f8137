/* router/http/api_pull.c - POST /api/pull: a registration that Ollama's clients watch.
 *
 * The name is resolved (resolve.h), the model is registered, unless it is, and then followed
 * until a node has its files and can run it.  The client gets a line of JSON when something has
 * changed, and now and then while nothing has; with "stream": false it gets one answer at the
 * end.  The registration stays where the client leaves or a node fails: nodes try again by
 * themselves.
 *
 * Moves of a pull:
 *   registering -> following, abandoned, ended: done; the client has left; refused
 *   following -> ended
 *   abandoned -> ended: the registration that still ran is done
 *   ended -> nothing
 *
 * Thread: the request's loop.
 */
#include <stdio.h>

#include "base/errors.h"
#include "base/machine.h"
#include "chat/codec.h"
#include "router/http/api.h"
#include "router/http/availability.h"
#include "router/http/resolve.h"
#include "router/http/state.h"

enum {
    LOOK_MS = 250,
    REPEAT_MS = 5000,   /* so that a silent connection is not taken for a dead one */
    REASON_MS = 5000,   /* a node may have said why not before it tried anew */
    UNTAKEN_MS = 60000, /* for a node to read the registration */
    LINE_BYTES = 2048,
};

enum pull_state { PULL_REGISTERING, PULL_ABANDONED, PULL_FOLLOWING, PULL_ENDED };

#define TO(name) LR_STATE(PULL_##name)
static const struct lr_machine machine = {
    "pull",
    {
        [PULL_REGISTERING] = {"registering", TO(ABANDONED) | TO(FOLLOWING) | TO(ENDED)},
        [PULL_ABANDONED] = {"abandoned", TO(ENDED)},
        [PULL_FOLLOWING] = {"following", TO(ENDED)},
        [PULL_ENDED] = {"ended", 0},
    }};

/* In the request's arena. */
struct pulling {
    struct router *router;
    struct net_request *req;
    enum pull_state state;
    bool is_stream;
    char id[ROUTER_ID_MAX]; /* of the model */
    struct net_timer *timer;
    uint64_t moved_ms; /* when the model last made progress; begins with FOLLOWING */
    uint64_t sent_ms;  /* when the last line was sent */
    struct lr_buf line;
    char last[LINE_BYTES]; /* the last line */
};

/* An illegal move ends the pull: the client sees that the answer is not complete. */
static void api_pull_move(struct pulling *p, enum pull_state to)
{
    p->state = lr_machine_allows(&machine, p->id, p->state, to) ? to : PULL_ENDED;
}

/* ---- the answer ---- */

static void api_pull_release(struct pulling *p)
{
    api_pull_move(p, PULL_ENDED);
    net_timer_stop(p->timer);
    lr_buf_free(&p->line);
}

static const struct chat_codec *codec_of(const struct pulling *p)
{
    return chat_codec_near(net_request_path(p->req));
}

/* err NULL: the model is ready. */
static void api_pull_end(struct pulling *p, const struct lr_error *err)
{
    struct lr_buf out;
    lr_buf_init(&out, LINE_BYTES);
    if (err != NULL)
        chat_error_write(&out, codec_of(p), &(struct chat_error){.error = *err});
    else
        lr_buf_add_z(&out, "{\"status\":\"success\"}");
    api_pull_release(p);
    if (net_response_begun(p->req)) {
        lr_buf_add_char(&out, '\n');
        (void)net_stream_finish(p->req, lr_buf_str(&out));
    } else if (err != NULL) {
        net_respond_error_body(p->req, err, lr_buf_str(&out));
    } else {
        net_respond(p->req, 200, "application/json", lr_buf_str(&out));
    }
    lr_buf_free(&out);
}

static void abort_pull(struct pulling *p)
{
    api_pull_release(p);
    net_stream_abort(p->req);
}

/* Sends p->line, unless the client has it. */
static void send_line(struct pulling *p)
{
    uint64_t now = net_loop_now_ms(net_request_loop(p->req));
    const char *line = lr_buf_z(&p->line);
    if (!p->is_stream || (strcmp(line, p->last) == 0 && now - p->sent_ms < REPEAT_MS))
        return;
    LR_COPY(p->last, lr_str_z(line));
    p->sent_ms = now;
    lr_buf_add_char(&p->line, '\n');
    if (!net_response_begun(p->req))
        net_live_begin(p->req, chat_codec_stream_type(codec_of(p)));
    if (net_stream_write(p->req, lr_buf_str(&p->line)) == LR_TOO_LARGE)
        abort_pull(p); /* the client does not read */
}

static struct lr_json_writer *begin_line(struct pulling *p, struct lr_json_writer *w,
                                         const char *status)
{
    lr_buf_clear(&p->line);
    lr_json_writer_init(w, &p->line);
    lr_json_begin_object(w);
    lr_json_member_z(w, "status", status);
    return w;
}

/* ---- following ---- */

static bool has_online_node(const struct router *r)
{
    const struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;)
        if (router_node_is_online(node))
            return true;
    return false;
}

/* Lock held.  The line for what nodes do with the model now; false: nothing that leads on. */
static bool write_progress(struct pulling *p, const struct router_model *m,
                           const struct router_availability *o)
{
    struct lr_json_writer w;
    char text[LR_SHA256_HEX_LEN + 16];
    bool is_fetching = strcmp(o->state, "fetching") == 0;
    bool is_verifying = strcmp(o->state, "verifying") == 0;
    if (is_fetching) {
        (void)snprintf(text, sizeof(text), "pulling %.12s", m->manifest_sha256);
        begin_line(p, &w, text);
        (void)snprintf(text, sizeof(text), "sha256:%s", m->manifest_sha256);
        lr_json_member_z(&w, "digest", text);
        if (o->best->fetch_bytes != 0)
            LR_JSON_MEMBERS(&w, LR_UINT("total", o->best->fetch_bytes),
                            LR_UINT("completed", o->best->fetched_bytes));
    } else {
        begin_line(p, &w, is_verifying ? "verifying sha256 digest" : "waiting for a node");
    }
    lr_json_end_object(&w);
    return is_fetching || is_verifying;
}

/* Lock held.  LR_OK: *is_ready, or p->line says how far it is. */
static lr_code api_pull_look(struct pulling *p, uint64_t now, bool *is_ready,
                             struct lr_error *err)
{
    struct router *r = p->router;
    const struct router_model *m = router_registry_find(&r->registry, lr_str_z(p->id));
    if (m == NULL)
        return lr_fail_as(err, pull_deleted, p->id);
    struct router_availability o = router_model_availability(r, m);
    *is_ready = o.is_ready;
    if (o.is_ready)
        return LR_OK;
    if (!has_online_node(r))
        return lr_fail_as(err, pull_no_node, p->id);
    if (write_progress(p, m, &o) || p->moved_ms == 0)
        p->moved_ms = now;
    bool has_reason = o.best != NULL && o.reason.text[0] != '\0';
    if (now - p->moved_ms < (has_reason ? REASON_MS : UNTAKEN_MS))
        return LR_OK;
    return lr_fail_as(err, pull_cannot_run, p->id, &o.reason);
}

static void on_look(void *arg)
{
    struct pulling *p = arg;
    struct router *r = p->router;
    struct lr_error err;
    bool is_ready = false;
    lr_code code = LR_OK;
    if (atomic_load(&r->is_draining))
        code = lr_fail_plain(&err, router_stops);
    else if (!router_may_listen(r, p->req))
        code = lr_fail_plain(&err, pull_key_revoked);
    if (code == LR_OK) {
        router_lock(r);
        code = api_pull_look(p, net_loop_now_ms(net_request_loop(p->req)), &is_ready, &err);
        router_unlock(r);
    }
    if (code != LR_OK || is_ready)
        api_pull_end(p, code != LR_OK ? &err : NULL);
    else
        send_line(p);
}

static void follow(struct pulling *p, struct lr_str id)
{
    LR_COPY(p->id, id);
    api_pull_move(p, PULL_FOLLOWING);
    p->timer = net_timer_start(net_request_loop(p->req), 0, LOOK_MS, on_look, p);
}

/* ---- registering ---- */

static void api_pull_on_gone(void *arg)
{
    struct pulling *p = arg;
    if (p->state == PULL_REGISTERING)
        api_pull_move(p, PULL_ABANDONED);
    else if (p->state == PULL_FOLLOWING)
        abort_pull(p);
}

static void on_registered(void *arg, const char *id, const struct lr_error *err)
{
    struct pulling *p = arg;
    if (p->state == PULL_ABANDONED)
        abort_pull(p);
    else if (err != NULL)
        api_pull_end(p, err);
    else
        follow(p, lr_str_z(id));
}

/* The choice is told before the download begins. */
static void tell_choice(struct pulling *p, const struct router_resolution *o)
{
    struct lr_json_writer w;
    char text[HUB_WHY_MAX + 600];
    const struct hub_candidate *c = o->chosen;
    if (c == NULL)
        return;
    (void)snprintf(text, sizeof(text), "pulling " LR_STR_FMT " of %s: %s",
                   LR_STR_ARG(c->filename.len != 0 ? lr_str_sub(c->filename, 0, 300)
                                                   : LR_STR_LIT("safetensors")),
                   o->looked[0].at.listing->repo, o->looked[0].why);
    begin_line(p, &w, text);
    lr_json_end_object(&w);
    send_line(p);
}

static void on_pull_resolved(void *arg, const struct router_resolution *o,
                             const struct lr_error *err)
{
    struct pulling *p = arg;
    struct lr_error why;
    const struct lr_json *body = NULL;
    if (p->state == PULL_ABANDONED) {
        abort_pull(p);
        return;
    }
    if (err == NULL && o->kind == ROUTER_NAME_MODEL) {
        follow(p, lr_str_z(o->id));
        return;
    }
    if (err == NULL && (body = router_resolution_body(o, p->req)) == NULL) {
        router_resolution_refuse(o, &why);
        err = &why;
    }
    if (err == NULL)
        tell_choice(p, o);
    if (err == NULL && p->state == PULL_REGISTERING &&
        router_begin_registration(p->router, p->req, body, on_registered, p, &why) != LR_OK)
        err = &why;
    if (err != NULL)
        api_pull_end(p, err);
}

static lr_code api_pull_begin(struct pulling *p, struct lr_str name, struct lr_error *err)
{
    struct lr_json_writer w;
    struct router_resolve_wish wish = {.name = name};
    net_request_on_gone(p->req, api_pull_on_gone, p);
    begin_line(p, &w, "pulling manifest");
    lr_json_end_object(&w);
    send_line(p);
    if (p->state != PULL_REGISTERING)
        return LR_OK; /* the client does not read */
    lr_code code = router_resolve(p->router, p->req, &wish, on_pull_resolved, p, err);
    if (code != LR_OK)
        api_pull_end(p, err);
    return LR_OK;
}

lr_code router_api_pull(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body, *flag;
    struct lr_str name;
    struct pulling *p = router_memory(req, sizeof(*p), err);
    if (p == NULL)
        return LR_OUT_OF_RAM;
    *p = (struct pulling){.router = r, .req = req, .is_stream = true};
    lr_code code = router_body(req, &body, err);
    if (code == LR_OK)
        code = router_named_model(body, &name, err);
    flag = code == LR_OK ? lr_json_get(body, "stream") : NULL;
    if (flag != NULL && flag->type != LR_JSON_NULL && !lr_json_bool(flag, &p->is_stream))
        code = lr_fail_plain(err, stream_flag);
    if (code != LR_OK)
        return code;
    lr_buf_init(&p->line, LINE_BYTES);
    code = api_pull_begin(p, name, err);
    if (code != LR_OK)
        lr_buf_free(&p->line);
    return code;
}
