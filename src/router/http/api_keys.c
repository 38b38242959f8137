/* router/http/api_keys.c - keys are made, listed, changed and revoked; join tokens for nodes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "router/http/api.h"

enum {
    BODY_BYTES = 4 << 20,
    TOKEN_LIFE_MS = 3600 * 1000,
    NODE_KEY_LIFE_MS = 24 * 3600 * 1000, /* a key that lets machines in is not for ever */
};

struct making {
    struct router *router;
    struct net_request *req;
    struct router_key key;
    char text[ROUTER_KEY_TEXT];
};

/* Left out for a key that may use every model. */
static void put_models(struct lr_json_writer *w, const struct router_key *key)
{
    struct lr_str rest = lr_str_z(key->models), one;
    if (rest.len == 0)
        return;
    lr_json_key(w, "models");
    lr_json_begin_array(w);
    while (lr_str_split(&rest, ' ', &one))
        lr_json_put_str(w, one);
    lr_json_end_array(w);
}

static void put_key(struct lr_json_writer *w, const struct router_key *key, const char *text)
{
    lr_json_begin_object(w);
    lr_json_member_z(w, "id", key->id);
    lr_json_member_z(w, "name", key->name);
    lr_json_member_z(w, "role", router_role_name(key->role));
    if (text != NULL)
        lr_json_member_z(w, "key", text);
    lr_json_member_i64(w, "created", key->created_ms / 1000);
    if (key->expires_ms != 0)
        lr_json_member_i64(w, "expires", key->expires_ms / 1000);
    if (key->revoked_ms != 0)
        lr_json_member_i64(w, "revoked", key->revoked_ms / 1000);
    if (key->used_ms != 0)
        lr_json_member_u64(w, "last_used", key->used_ms / 1000);
    if (key->requests_per_minute != 0)
        lr_json_member_u64(w, "requests_per_minute", key->requests_per_minute);
    if (key->tokens_per_minute != 0)
        lr_json_member_u64(w, "tokens_per_minute", key->tokens_per_minute);
    if (key->role == ROUTER_NODE) {
        lr_json_member_u64(w, "uses", key->uses); /* 0: any number of nodes */
        lr_json_member_u64(w, "joins", key->joins);
    }
    put_models(w, key);
    lr_json_end_object(w);
}

void router_api_keys(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_json_writer w;
    w = router_json_begin(&body, BODY_BYTES);
    lr_json_key(&w, "keys");
    lr_json_begin_array(&w);
    router_lock(r);
    for (size_t i = 0; i < r->keys.count; i++)
        put_key(&w, r->keys.all[i], NULL);
    router_unlock(r);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    router_respond_json(req, 200, &body);
}

static lr_code insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_key_insert(sql, &((struct making *)arg)->key, err);
}

static void inserted(void *arg, const struct lr_error *err)
{
    struct making *m = arg;
    struct router *r = m->router;
    struct lr_error failure;
    lr_code code = LR_OK;
    if (err == NULL) {
        router_lock(r);
        code = router_keys_add(&r->keys, &m->key, &failure);
        router_unlock(r);
    }
    if (err != NULL || code != LR_OK) {
        net_respond_error(m->req, err != NULL ? err : &failure);
        return;
    }
    struct lr_buf body;
    struct lr_json_writer w;
    lr_buf_init(&body, 4096);
    lr_json_writer_init(&w, &body);
    put_key(&w, &m->key, m->text);
    router_respond_json(m->req, 201, &body);
}

static void make_key(struct router *r, struct net_request *req, const struct router_key *wanted)
{
    struct making *m = lr_arena_zalloc(net_request_arena(req), sizeof(*m));
    if (m == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a key");
        return;
    }
    m->router = r;
    m->req = req;
    m->key = *wanted;
    router_key_draw(&m->key, lr_clock_wall_ms(NULL), m->text);
    char detail[64];
    if (m->key.role == ROUTER_NODE)
        (void)snprintf(detail, sizeof(detail), "node uses=%llu",
                       (unsigned long long)m->key.uses);
    else
        (void)snprintf(detail, sizeof(detail), "%s", router_role_name(m->key.role));
    struct router_action action = {router_caller_name(&router_access(req)->caller),
                                   "key.create", m->key.id, detail};
    router_store_act(r->store, &action, insert, net_request_loop(req), inserted, m);
}

void router_api_key_create(struct router *r, struct net_request *req)
{
    struct router_key_change wanted;
    struct lr_error err;
    enum router_role role = ROUTER_API;
    const struct lr_json *body = router_body(req);
    if (body == NULL)
        return;
    if (router_key_read(body, &role, lr_clock_wall_ms(NULL), &wanted, &err) != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    wanted.to.role = role;
    if (role == ROUTER_NODE && (wanted.given & ROUTER_KEY_EXPIRY) == 0)
        wanted.to.expires_ms = lr_clock_wall_ms(NULL) + NODE_KEY_LIFE_MS;
    make_key(r, req, &wanted.to);
}

/* What `llm-router nodes token` asks for: unless told otherwise for one node, within an hour.
 */
void router_api_node_token(struct router *r, struct net_request *req)
{
    struct router_key_change wanted;
    struct lr_error err;
    int64_t now = lr_clock_wall_ms(NULL);
    enum router_role role = ROUTER_NODE;
    const struct lr_json *body = router_body(req);
    if (body == NULL)
        return;
    lr_code code = router_key_read(body, &role, now, &wanted, &err);
    if (code == LR_OK && role != ROUTER_NODE)
        code = lr_fail(&err, LR_INVALID_ARGUMENT, "a join token is a key of role node");
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    struct router_key *key = &wanted.to;
    key->role = ROUTER_NODE;
    if ((wanted.given & ROUTER_KEY_NAME) == 0)
        (void)snprintf(key->name, sizeof(key->name), "join token");
    if ((wanted.given & ROUTER_KEY_USES) == 0)
        key->uses = 1;
    if ((wanted.given & ROUTER_KEY_EXPIRY) == 0)
        key->expires_ms = now + TOKEN_LIFE_MS;
    make_key(r, req, key);
}

/* ---- changing and revoking ---- */

struct changing {
    struct router *router;
    struct net_request *req;
    char id[24];
    int64_t now_ms;
    struct router_key_change change;
};

/* NULL, and the request is answered: there is no such key. */
static struct changing *find_key(struct router *r, struct net_request *req)
{
    struct lr_str id = router_access(req)->match.tail;
    struct changing *m = lr_arena_zalloc(net_request_arena(req), sizeof(*m));
    router_lock(r);
    const struct router_key *key = router_keys_find(&r->keys, id);
    if (key != NULL && m != NULL)
        memcpy(m->id, key->id, sizeof(m->id));
    router_unlock(r);
    if (key == NULL || m == NULL) {
        router_refuse(req, key == NULL ? LR_NOT_FOUND : LR_OUT_OF_RAM,
                      "there is no key \"" LR_STR_FMT "\"", LR_STR_ARG(lr_str_sub(id, 0, 60)));
        return NULL;
    }
    m->router = r;
    m->req = req;
    m->now_ms = lr_clock_wall_ms(NULL);
    return m;
}

static void act(struct changing *m, const char *name, const char *detail, router_store_fn fn,
                router_store_done done)
{
    struct router_action action = {router_caller_name(&router_access(m->req)->caller), name,
                                   m->id, detail};
    router_store_act(m->router->store, &action, fn, net_request_loop(m->req), done, m);
}

static lr_code change(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct changing *m = arg;
    return router_key_update(sql, m->id, &m->change, err);
}

static void changed(void *arg, const struct lr_error *err)
{
    struct changing *m = arg;
    struct router *r = m->router;
    struct lr_buf body;
    struct lr_json_writer w;
    if (err != NULL) {
        net_respond_error(m->req, err);
        return;
    }
    lr_buf_init(&body, BODY_BYTES);
    lr_json_writer_init(&w, &body);
    router_lock(r);
    struct router_key *key = router_keys_find(&r->keys, lr_str_z(m->id));
    router_key_apply(key, &m->change);
    put_key(&w, key, NULL);
    router_unlock(r);
    router_respond_json(m->req, 200, &body);
}

/* What was changed, for the audit log: "name=... requests_per_minute=..." */
static void describe(const struct changing *m, struct lr_buf *detail)
{
    const struct router_key *to = &m->change.to;
    unsigned given = m->change.given;
    if ((given & ROUTER_KEY_NAME) != 0)
        lr_buf_addf(detail, "name=\"%s\" ", to->name);
    if ((given & ROUTER_KEY_EXPIRY) != 0)
        lr_buf_addf(detail, "expires=%lld ", (long long)to->expires_ms / 1000);
    if ((given & ROUTER_KEY_REQUESTS) != 0)
        lr_buf_addf(detail, "requests_per_minute=%llu ",
                    (unsigned long long)to->requests_per_minute);
    if ((given & ROUTER_KEY_TOKENS) != 0)
        lr_buf_addf(detail, "tokens_per_minute=%llu ",
                    (unsigned long long)to->tokens_per_minute);
    if ((given & ROUTER_KEY_MAY_USE) != 0)
        lr_buf_addf(detail, "models=%s ", to->models[0] != '\0' ? to->models : "all");
    if (detail->len != 0)
        detail->len--; /* the last blank */
}

void router_api_key_change(struct router *r, struct net_request *req)
{
    struct lr_error err;
    struct lr_buf detail;
    const struct lr_json *body = router_body(req);
    struct changing *m = body != NULL ? find_key(r, req) : NULL;
    if (m == NULL)
        return;
    router_lock(r);
    bool is_revoked = router_keys_find(&r->keys, lr_str_z(m->id))->revoked_ms != 0;
    router_unlock(r);
    if (is_revoked) {
        router_refuse(req, LR_CONFLICT, "key %s was revoked for good: make a new one", m->id);
        return;
    }
    if (router_key_read(body, NULL, m->now_ms, &m->change, &err) != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    lr_buf_init(&detail, 4096);
    describe(m, &detail);
    act(m, "key.change", lr_buf_z(&detail), change, changed);
    lr_buf_free(&detail);
}

static lr_code revoke(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct changing *m = arg;
    return router_key_revoke(sql, m->id, m->now_ms, err);
}

static void revoked(void *arg, const struct lr_error *err)
{
    struct changing *m = arg;
    struct router *r = m->router;
    if (err != NULL) {
        net_respond_error(m->req, err);
        return;
    }
    router_lock(r);
    struct router_key *key = router_keys_find(&r->keys, lr_str_z(m->id));
    if (key->revoked_ms == 0)
        key->revoked_ms = m->now_ms;
    router_unlock(r);
    net_respond(m->req, 200, "application/json", LR_STR_LIT("{\"revoked\":true}"));
}

void router_api_key_revoke(struct router *r, struct net_request *req)
{
    struct changing *m = find_key(r, req);
    if (m != NULL)
        act(m, "key.revoke", "", revoke, revoked);
}
