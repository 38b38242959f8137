/* router/api_keys.c - keys are made, listed and revoked; join tokens for nodes. */
#include <stdio.h>
#include <stdlib.h>

#include "router/api.h"

enum { BODY_BYTES = 4 << 20, TOKEN_LIFE_MS = 3600 * 1000 };

struct making {
    struct router *router;
    struct net_request *req;
    struct router_key key;
    char text[ROUTER_KEY_TEXT];
};

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
    struct router_access *access = router_access(m->req);
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
    router_store_audit(r->store, router_caller_name(&access->caller), "key.create", m->key.id,
                       router_role_name(m->key.role));
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
    router_store_submit(r->store, insert, net_request_loop(req), inserted, m);
}

static lr_code read_limit(const struct lr_json *body, const char *name, uint64_t *out,
                          struct lr_error *err)
{
    const struct lr_json *v = lr_json_get(body, name);
    *out = 0;
    if (v != NULL && (!lr_json_u64(v, out) || *out > 1000000000))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"%s\" must be a whole number from 0 (no limit) to 1000000000", name);
    return LR_OK;
}

/* {"name": "...", "role": "api", "expires_in": seconds, "requests_per_minute": n, ...} */
static lr_code read_key(const struct lr_json *body, struct router_key *key,
                        struct lr_error *err)
{
    struct lr_str name = {0}, role = LR_STR_LIT("api");
    const struct lr_json *v = lr_json_get(body, "name");
    uint64_t seconds;
    *key = (struct router_key){0};
    if (v != NULL && (!lr_json_str(v, &name) || name.len >= sizeof(key->name)))
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"name\" must be a string of up to %zu bytes",
                       sizeof(key->name) - 1);
    v = lr_json_get(body, "role");
    if (v != NULL && !lr_json_str(v, &role))
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"role\" must be a string");
    if (!router_role_find(role, &key->role))
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"role\" must be admin, api or node");
    (void)snprintf(key->name, sizeof(key->name), LR_STR_FMT, LR_STR_ARG(name));
    lr_code code = read_limit(body, "expires_in", &seconds, err);
    if (code == LR_OK && seconds != 0)
        key->expires_ms = lr_clock_wall_ms(NULL) + (int64_t)seconds * 1000;
    if (code == LR_OK)
        code = read_limit(body, "requests_per_minute", &key->requests_per_minute, err);
    if (code == LR_OK)
        code = read_limit(body, "tokens_per_minute", &key->tokens_per_minute, err);
    for (uint32_t i = 0; code == LR_OK && i < body->count; i++) {
        struct lr_str k = body->members[i].key;
        if (!lr_str_eq_z(k, "name") && !lr_str_eq_z(k, "role") &&
            !lr_str_eq_z(k, "expires_in") && !lr_str_eq_z(k, "requests_per_minute") &&
            !lr_str_eq_z(k, "tokens_per_minute"))
            code = lr_fail(err, LR_INVALID_ARGUMENT, "\"" LR_STR_FMT "\" is not known here",
                           LR_STR_ARG(lr_str_sub(k, 0, 80)));
    }
    return code;
}

void router_api_key_create(struct router *r, struct net_request *req)
{
    struct router_key key;
    struct lr_error err;
    const struct lr_json *body = router_body(req);
    if (body == NULL)
        return;
    if (read_key(body, &key, &err) != LR_OK)
        net_respond_error(req, &err);
    else
        make_key(r, req, &key);
}

/* What `llm-router nodes token` asks for: good for an hour, for any number of nodes. */
void router_api_node_token(struct router *r, struct net_request *req)
{
    struct router_key key = {.name = "join token", .role = ROUTER_NODE};
    key.expires_ms = lr_clock_wall_ms(NULL) + TOKEN_LIFE_MS;
    make_key(r, req, &key);
}

/* ---- revoking ---- */

struct revoking {
    struct router *router;
    struct net_request *req;
    char id[24];
    int64_t now_ms;
};

static lr_code revoke(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct revoking *m = arg;
    return router_key_revoke(sql, m->id, m->now_ms, err);
}

static void revoked(void *arg, const struct lr_error *err)
{
    struct revoking *m = arg;
    struct router *r = m->router;
    struct router_access *access = router_access(m->req);
    if (err != NULL) {
        net_respond_error(m->req, err);
        return;
    }
    router_lock(r);
    struct router_key *key = router_keys_find(&r->keys, lr_str_z(m->id));
    if (key != NULL && key->revoked_ms == 0)
        key->revoked_ms = m->now_ms;
    router_unlock(r);
    router_store_audit(r->store, router_caller_name(&access->caller), "key.revoke", m->id, "");
    net_respond(m->req, 200, "application/json", LR_STR_LIT("{\"revoked\":true}"));
}

void router_api_key_revoke(struct router *r, struct net_request *req)
{
    struct lr_str id = router_access(req)->tail;
    struct revoking *m = lr_arena_zalloc(net_request_arena(req), sizeof(*m));
    router_lock(r);
    const struct router_key *key = router_keys_find(&r->keys, id);
    if (key != NULL && m != NULL)
        memcpy(m->id, key->id, sizeof(m->id));
    router_unlock(r);
    if (key == NULL || m == NULL) {
        router_refuse(req, key == NULL ? LR_NOT_FOUND : LR_OUT_OF_RAM,
                      "there is no key \"" LR_STR_FMT "\"", LR_STR_ARG(lr_str_sub(id, 0, 60)));
        return;
    }
    m->router = r;
    m->req = req;
    m->now_ms = lr_clock_wall_ms(NULL);
    router_store_submit(r->store, revoke, net_request_loop(req), revoked, m);
}
