/* router/http/api_keys.c - keys are made, listed, changed and revoked; join tokens for nodes.
 */
#include <stddef.h>
#include <stdio.h>

#include "router/http/api.h"
#include "router/state.h"

enum {
    NUMBER_MAX = 1000000000,
    TOKEN_LIFE_MS = 3600 * 1000,
    NODE_KEY_LIFE_MS = 24 * 3600 * 1000, /* a key that lets machines in is not for ever */
};

/* ---- what a request may say of a key: its name, its models, its limits, its end ---- */

static lr_code read_name(const struct lr_json *v, struct router_key *key, struct lr_error *err)
{
    struct lr_str name;
    bool is_text = lr_json_str(v, &name) && name.len < sizeof(key->name);
    for (size_t i = 0; is_text && i < name.len; i++)
        is_text = (unsigned char)name.ptr[i] >= ' ' && name.ptr[i] != 0x7f; /* terminals */
    if (!is_text)
        return lr_fail(
            err, LR_INVALID_ARGUMENT,
            "\"name\" must be a string of up to %zu bytes without control characters",
            sizeof(key->name) - 1);
    LR_COPY(key->name, name);
    return LR_OK;
}

/* Models that are not registered yet may be named, too. */
static lr_code read_models(const struct lr_json *v, struct router_key *key,
                           struct lr_error *err)
{
    size_t len = 0;
    if (v->type != LR_JSON_ARRAY)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"models\" must be an array of model ids; empty: every model");
    key->models[0] = '\0';
    for (uint32_t i = 0; i < v->count; i++) {
        struct lr_str id;
        if (!lr_json_str(&v->items[i], &id))
            return lr_fail(err, LR_INVALID_ARGUMENT, "\"models\" must hold strings");
        lr_code code = router_check_model_id(id, err);
        if (code != LR_OK)
            return lr_fail_prefix(err, "\"models\"");
        if (len + id.len + 2 > sizeof(key->models))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "\"models\" may have %zu bytes of ids in all: make several keys",
                           sizeof(key->models) - 1);
        len += (size_t)snprintf(key->models + len, sizeof(key->models) - len, "%s" LR_STR_FMT,
                                i != 0 ? " " : "", LR_STR_ARG(id));
    }
    return LR_OK;
}

/* Members that are whole numbers, and what 0 means there. */
static const struct {
    const char *name, *zero;
    enum router_key_field field;
    size_t offset; /* of a uint64_t in struct router_key; 0: none */
} numbers[] = {
    {"requests_per_minute", "no limit", ROUTER_KEY_REQUESTS,
     offsetof(struct router_key, requests_per_minute)},
    {"tokens_per_minute", "no limit", ROUTER_KEY_TOKENS,
     offsetof(struct router_key, tokens_per_minute)},
    {"uses", "any number of nodes", ROUTER_KEY_USES, offsetof(struct router_key, uses)},
    {"expires_in", "never", ROUTER_KEY_EXPIRY, 0},
};

static lr_code read_number(struct lr_str name, const struct lr_json *v, bool is_new,
                           struct router_key_change *out, struct lr_error *err)
{
    size_t i = 0;
    uint64_t number;
    while (i < sizeof(numbers) / sizeof(numbers[0]) && !lr_str_eq_z(name, numbers[i].name))
        i++;
    if (i == sizeof(numbers) / sizeof(numbers[0]) ||
        (numbers[i].field == ROUTER_KEY_USES && !is_new))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"" LR_STR_FMT "\" is not known here: name, models, expires_in, "
                       "requests_per_minute, tokens_per_minute%s are",
                       LR_STR_ARG(lr_str_sub(name, 0, 80)), is_new ? ", role, uses" : "");
    if (!lr_json_u64(v, &number) || number > NUMBER_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"%s\" must be a whole number from 0 (%s) to %d", numbers[i].name,
                       numbers[i].zero, NUMBER_MAX);
    out->given |= numbers[i].field;
    if (numbers[i].offset != 0)
        memcpy((char *)&out->to + numbers[i].offset, &number, sizeof(number));
    else if (number != 0)
        out->to.expires_ms = lr_clock_wall_ms(NULL) + (int64_t)number * 1000;
    return LR_OK;
}

static lr_code read_role(const struct lr_json *v, enum router_role *role, struct lr_error *err)
{
    struct lr_str name;
    if (role == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"role\" of a key cannot be changed: make a new key");
    return lr_json_str(v, &name) && router_role_find(name, role)
               ? LR_OK
               : lr_fail(err, LR_INVALID_ARGUMENT,
                         "\"role\" must be admin, viewer, api, node or metrics");
}

/* `role` is what a new key has where the body does not say; NULL: the key exists. */
static lr_code read_key(struct net_request *req, enum router_role *role,
                        struct router_key_change *out, struct lr_error *err)
{
    const struct lr_json *body;
    *out = (struct router_key_change){0};
    lr_code code = router_body(req, &body, err);
    for (uint32_t i = 0; code == LR_OK && i < body->count; i++) {
        struct lr_str name = body->members[i].key;
        const struct lr_json *v = &body->members[i].value;
        bool is_name = lr_str_eq_z(name, "name"), is_models = lr_str_eq_z(name, "models");
        out->given |= is_name ? ROUTER_KEY_NAME : is_models ? ROUTER_KEY_MAY_USE : 0;
        code = is_name                     ? read_name(v, &out->to, err)
               : is_models                 ? read_models(v, &out->to, err)
               : lr_str_eq_z(name, "role") ? read_role(v, role, err)
                                           : read_number(name, v, role != NULL, out, err);
    }
    if (code != LR_OK)
        return code;
    if (role != NULL && *role != ROUTER_NODE && (out->given & ROUTER_KEY_USES) != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"uses\" is for keys of role node");
    if (role == NULL && out->given == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "say what to change: name, models, expires_in, requests_per_minute or "
                       "tokens_per_minute");
    out->to.role = role != NULL ? *role : ROUTER_PUBLIC;
    return LR_OK;
}

/* ---- a key as the answers have it ---- */

/* What is 0 or empty is left out; text is known only while the key is made. */
static void put_members(struct lr_json_writer *w, const struct router_key *key,
                        const char *text)
{
    const struct lr_json_field fields[] = {
        LR_INT("expires", key->expires_ms / 1000),
        LR_INT("revoked", key->revoked_ms / 1000),
        LR_INT("last_used", (int64_t)(key->used_ms / 1000)),
        LR_INT("requests_per_minute", (int64_t)key->requests_per_minute),
        LR_INT("tokens_per_minute", (int64_t)key->tokens_per_minute),
    };
    struct lr_str rest = lr_str_z(key->models), one;
    LR_JSON_MEMBERS(w, LR_TEXT("id", key->id), LR_TEXT("name", key->name),
                    LR_TEXT("role", router_role_name(key->role)));
    if (text != NULL)
        lr_json_member_z(w, "key", text);
    lr_json_member_i64(w, "created", key->created_ms / 1000);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        lr_json_put_fields(w, &fields[i], fields[i].i64 != 0);
    if (key->role == ROUTER_NODE) /* uses 0: any number of nodes */
        LR_JSON_MEMBERS(w, LR_UINT("uses", key->uses), LR_UINT("joins", key->joins));
    if (rest.len == 0)
        return; /* every model */
    lr_json_member_array(w, "models");
    while (lr_str_split(&rest, ' ', &one))
        lr_json_put_str(w, one);
    lr_json_end_array(w);
}

lr_code router_api_keys(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_json_writer *w = router_answer_begin(req);
    (void)err;
    lr_json_member_array(w, "keys");
    router_lock(r);
    for (size_t i = 0; i < r->keys.count; i++) {
        lr_json_begin_object(w);
        put_members(w, r->keys.all[i], NULL);
        lr_json_end_object(w);
    }
    router_unlock(r);
    lr_json_end_array(w);
    lr_json_member_object(w, "stored_responses");
    LR_JSON_MEMBERS(w, LR_UINT("keep_s", r->keeper.keep_ms / 1000),
                    LR_UINT("max_bytes", r->keeper.max_bytes));
    lr_json_end_object(w);
    return router_answer(req, 200);
}

/* ---- making ---- */

/* In the request's memory. */
struct making {
    struct router_key key;
    char text[ROUTER_KEY_TEXT];
};

static lr_code insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_key_insert(sql, &((struct making *)arg)->key, err);
}

static lr_code inserted(struct net_request *req, void *arg, struct lr_error *err)
{
    struct making *m = arg;
    struct router *r = router_access(req)->router;
    router_lock(r);
    lr_code code = router_keys_add(&r->keys, &m->key, err);
    router_unlock(r);
    if (code != LR_OK)
        return code;
    put_members(router_answer_begin(req), &m->key, m->text);
    return router_answer(req, 201);
}

static lr_code make_key(struct net_request *req, const struct router_key *wanted,
                        struct lr_error *err)
{
    struct making *m = router_memory(req, sizeof(*m), err);
    char detail[64];
    if (m == NULL)
        return LR_OUT_OF_RAM;
    m->key = *wanted;
    router_key_draw(&m->key, lr_clock_wall_ms(NULL), m->text);
    if (m->key.role == ROUTER_NODE)
        (void)snprintf(detail, sizeof(detail), "node uses=%llu",
                       (unsigned long long)m->key.uses);
    else
        (void)snprintf(detail, sizeof(detail), "%s", router_role_name(m->key.role));
    struct router_action action = {NULL, "key.create", m->key.id, detail};
    return router_act(req, &action, insert, inserted, m, err);
}

lr_code router_api_key_create(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_key_change wanted;
    enum router_role role = ROUTER_API;
    lr_code code = read_key(req, &role, &wanted, err);
    (void)r;
    if (code != LR_OK)
        return code;
    if (role == ROUTER_NODE && (wanted.given & ROUTER_KEY_EXPIRY) == 0)
        wanted.to.expires_ms = lr_clock_wall_ms(NULL) + NODE_KEY_LIFE_MS;
    return make_key(req, &wanted.to, err);
}

/* What `llm-router nodes token` asks for: unless told otherwise for one node, within an hour.
 */
lr_code router_api_node_token(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_key_change wanted;
    enum router_role role = ROUTER_NODE;
    lr_code code = read_key(req, &role, &wanted, err);
    (void)r;
    if (code == LR_OK && role != ROUTER_NODE)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "a join token is a key of role node");
    if (code != LR_OK)
        return code;
    struct router_key *key = &wanted.to;
    if ((wanted.given & ROUTER_KEY_NAME) == 0)
        LR_COPY(key->name, LR_STR_LIT("join token"));
    if ((wanted.given & ROUTER_KEY_USES) == 0)
        key->uses = 1;
    if ((wanted.given & ROUTER_KEY_EXPIRY) == 0)
        key->expires_ms = lr_clock_wall_ms(NULL) + TOKEN_LIFE_MS;
    return make_key(req, key, err);
}

/* ---- changing and revoking ---- */

/* In the request's memory. */
struct changing {
    char id[24];
    bool is_revoked; /* already */
    struct router_key_change change;
};

static lr_code find_key(struct router *r, struct net_request *req, struct changing **out,
                        struct lr_error *err)
{
    struct lr_str id = router_access(req)->match.tail;
    struct changing *m = *out = router_memory(req, sizeof(*m), err);
    if (m == NULL)
        return LR_OUT_OF_RAM;
    router_lock(r);
    const struct router_key *key = router_keys_find(&r->keys, id);
    if (key != NULL) {
        memcpy(m->id, key->id, sizeof(m->id));
        m->is_revoked = key->revoked_ms != 0;
    }
    router_unlock(r);
    return key != NULL ? LR_OK : router_fail_absent("key", id, err);
}

static lr_code change(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct changing *m = arg;
    return router_key_update(sql, m->id, &m->change, err);
}

static void apply(struct net_request *req, const struct changing *m, struct lr_json_writer *w)
{
    struct router *r = router_access(req)->router;
    router_lock(r);
    struct router_key *key = router_keys_find(&r->keys, lr_str_z(m->id));
    router_key_apply(key, &m->change);
    if (w != NULL)
        put_members(w, key, NULL);
    router_unlock(r);
}

static lr_code changed(struct net_request *req, void *arg, struct lr_error *err)
{
    (void)err;
    apply(req, arg, router_answer_begin(req));
    return router_answer(req, 200);
}

/* What was changed, for the audit log: "name=... requests_per_minute=..." */
static void describe(const struct router_key_change *change, struct lr_buf *detail)
{
    const struct router_key *to = &change->to;
    unsigned given = change->given;
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

lr_code router_api_key_change(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct changing *m;
    struct lr_buf detail;
    lr_code code = find_key(r, req, &m, err);
    if (code == LR_OK && m->is_revoked)
        code = lr_fail(err, LR_CONFLICT, "key %s was revoked for good: make a new one", m->id);
    if (code == LR_OK)
        code = read_key(req, NULL, &m->change, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&detail, 4096);
    describe(&m->change, &detail);
    struct router_action action = {NULL, "key.change", m->id, lr_buf_z(&detail)};
    code = router_act(req, &action, change, changed, m, err);
    lr_buf_free(&detail);
    return code;
}

static lr_code revoked(struct net_request *req, void *arg, struct lr_error *err)
{
    (void)err;
    apply(req, arg, NULL);
    return router_answer_text(req, LR_STR_LIT("{\"revoked\":true}"));
}

lr_code router_api_key_revoke(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct changing *m;
    lr_code code = find_key(r, req, &m, err);
    if (code != LR_OK)
        return code;
    if (!m->is_revoked)
        m->change = (struct router_key_change){.given = ROUTER_KEY_REVOKED,
                                               .to.revoked_ms = lr_clock_wall_ms(NULL)};
    struct router_action action = {NULL, "key.revoke", m->id, ""};
    return router_act(req, &action, change, revoked, m, err);
}
