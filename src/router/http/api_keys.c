/* router/http/api_keys.c - keys are made, listed, changed and revoked; join tokens for nodes.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/errors.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/store/clock.h"

enum {
    NUMBER_MAX = 1000000000,
    TOKEN_LIFE_MS = 3600 * 1000,
    OVERLAP_S = 86400, /* of the old secret after a rotation */
    OVERLAP_MAX_S = 31536000,
};
#define MONTH_MAX 1000000000000000LL

/* ---- what a request may say of a key: its name, its models, its limits, its end ---- */

/* Members that are short texts. */
static const struct {
    const char *name;
    enum router_key_field field;
    size_t offset; /* of a char[64] in struct router_key */
} texts[] = {
    {"name", ROUTER_KEY_NAME, offsetof(struct router_key, name)},
    {"owner", ROUTER_KEY_OWNER, offsetof(struct router_key, owner)},
    {"label", ROUTER_KEY_LABEL, offsetof(struct router_key, label)},
};
enum {
    TEXTS = sizeof(texts) / sizeof(texts[0]),
    TEXT_BYTES = sizeof(((struct router_key *)0)->name)
};

/* The number of a text member; TEXTS: it is none. */
static size_t api_keys_text_of(struct lr_str name)
{
    size_t i = 0;
    while (i < TEXTS && !lr_str_eq_z(name, texts[i].name))
        i++;
    return i;
}

static lr_code api_keys_read_text(size_t which, const struct lr_json *v,
                                  struct router_key_change *out, struct lr_error *err)
{
    struct lr_str text;
    bool is_text = lr_json_str(v, &text) && text.len < TEXT_BYTES;
    for (size_t i = 0; is_text && i < text.len; i++)
        is_text = (unsigned char)text.ptr[i] >= ' ' && text.ptr[i] != 0x7f; /* terminals */
    if (!is_text)
        return lr_fail_as(err, key_text, texts[which].name, TEXT_BYTES - 1);
    out->given |= texts[which].field;
    lr_str_copy((char *)&out->to + texts[which].offset, TEXT_BYTES, text);
    return LR_OK;
}

static lr_code read_addresses(const struct lr_json *v, struct router_key *key,
                              struct lr_error *err)
{
    char text[NET_ADDRESS_TEXT + 8];
    struct net_cidr network;
    struct lr_str one;
    size_t len = 0;
    if (v->type != LR_JSON_ARRAY || v->count > NET_CIDRS_MAX)
        return lr_fail_as(err, key_addresses, NET_CIDRS_MAX);
    key->addresses[0] = '\0';
    for (uint32_t i = 0; i < v->count; i++) {
        if (!lr_json_str(&v->items[i], &one) || one.len >= sizeof(text) ||
            memchr(one.ptr, ' ', one.len) != NULL)
            return lr_fail_plain(err, key_address);
        LR_COPY(text, one);
        if (net_cidr_parse(text, &network, err) != LR_OK)
            return lr_fail_prefix(err, "\"addresses\"");
        if (len + one.len + 2 > sizeof(key->addresses))
            return lr_fail_as(err, key_addresses_over, sizeof(key->addresses) - 1);
        len += (size_t)snprintf(key->addresses + len, sizeof(key->addresses) - len, "%s%s",
                                i != 0 ? " " : "", text);
    }
    return LR_OK;
}

/* Models that are not registered yet may be named, too. */
static lr_code read_models(const struct lr_json *v, struct router_key *key,
                           struct lr_error *err)
{
    size_t len = 0;
    if (v->type != LR_JSON_ARRAY)
        return lr_fail_plain(err, key_models);
    key->models[0] = '\0';
    for (uint32_t i = 0; i < v->count; i++) {
        struct lr_str id;
        if (!lr_json_str(&v->items[i], &id))
            return lr_fail_plain(err, key_model);
        lr_code code = router_check_model_id(id, err);
        if (code != LR_OK)
            return lr_fail_prefix(err, "\"models\"");
        if (len + id.len + 2 > sizeof(key->models))
            return lr_fail_as(err, key_models_over, sizeof(key->models) - 1);
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
    uint64_t most;
} numbers[] = {
    {"requests_per_minute", "no limit", ROUTER_KEY_REQUESTS,
     offsetof(struct router_key, requests_per_minute), NUMBER_MAX},
    {"tokens_per_minute", "no limit", ROUTER_KEY_TOKENS,
     offsetof(struct router_key, tokens_per_minute), NUMBER_MAX},
    {"tokens_per_month", "no budget", ROUTER_KEY_MONTH,
     offsetof(struct router_key, tokens_per_month), MONTH_MAX},
    {"tokens_per_month_soft", "no alert", ROUTER_KEY_MONTH_SOFT,
     offsetof(struct router_key, tokens_per_month_soft), MONTH_MAX},
    {"concurrent_requests", "no limit", ROUTER_KEY_CONCURRENT,
     offsetof(struct router_key, concurrent_requests), NUMBER_MAX},
    {"request_bytes", "no limit", ROUTER_KEY_BYTES, offsetof(struct router_key, request_bytes),
     NUMBER_MAX},
    {"uses", "any number of nodes", ROUTER_KEY_USES, offsetof(struct router_key, uses),
     NUMBER_MAX},
    {"expires_in", "never", ROUTER_KEY_EXPIRY, 0, NUMBER_MAX},
};

static lr_code api_keys_read_number(struct lr_str name, const struct lr_json *v, bool is_new,
                                    struct router_key_change *out, struct lr_error *err)
{
    size_t i = 0;
    uint64_t number;
    while (i < sizeof(numbers) / sizeof(numbers[0]) && !lr_str_eq_z(name, numbers[i].name))
        i++;
    if (i == sizeof(numbers) / sizeof(numbers[0]) ||
        (numbers[i].field == ROUTER_KEY_USES && !is_new))
        return lr_fail_as(err, key_member, name, is_new ? ", role, uses" : "");
    if (!lr_json_u64(v, &number) || number > numbers[i].most)
        return lr_fail_as(err, key_number, numbers[i].name, numbers[i].zero, numbers[i].most);
    out->given |= numbers[i].field;
    if (numbers[i].offset != 0)
        memcpy((char *)&out->to + numbers[i].offset, &number, sizeof(number));
    else if (number != 0)
        out->to.expires_ms = lr_clock_wall_ms(&router_clock) + (int64_t)number * 1000;
    return LR_OK;
}

/* Keys of the other roles generate nothing. */
static bool may_keep_texts(enum router_role role)
{
    return role == ROUTER_API || role == ROUTER_ADMIN;
}

static lr_code fail_texts(struct lr_error *err)
{
    return lr_fail_plain(err, key_keep_texts_role);
}

static lr_code read_keep(const struct lr_json *v, struct router_key_change *out,
                         struct lr_error *err)
{
    bool is_on;
    if (!lr_json_bool(v, &is_on))
        return lr_fail_plain(err, key_keep_texts);
    out->given |= ROUTER_KEY_TEXTS;
    out->to.keep_texts = is_on;
    return LR_OK;
}

static lr_code read_role(const struct lr_json *v, enum router_role *role, struct lr_error *err)
{
    struct lr_str name;
    if (role == NULL)
        return lr_fail_plain(err, key_role_fixed);
    return lr_json_str(v, &name) && router_role_find(name, role) ? LR_OK
                                                                 : lr_fail_plain(err, key_role);
}

/* `role` is what a new key has where the body does not say; NULL: the key exists. */
static lr_code api_keys_read_key(struct net_request *req, enum router_role *role,
                                 struct router_key_change *out, struct lr_error *err)
{
    const struct lr_json *body;
    *out = (struct router_key_change){0};
    lr_code code = router_body(req, &body, err);
    for (uint32_t i = 0; code == LR_OK && i < body->count; i++) {
        struct lr_str name = body->members[i].key;
        const struct lr_json *v = &body->members[i].value;
        bool is_from = lr_str_eq_z(name, "addresses"), is_models = lr_str_eq_z(name, "models");
        out->given |= is_from ? ROUTER_KEY_FROM : is_models ? ROUTER_KEY_MAY_USE : 0;
        code = api_keys_text_of(name) != TEXTS
                   ? api_keys_read_text(api_keys_text_of(name), v, out, err)
               : is_from                   ? read_addresses(v, &out->to, err)
               : is_models                 ? read_models(v, &out->to, err)
               : lr_str_eq_z(name, "role") ? read_role(v, role, err)
               : lr_str_eq_z(name, "keep_texts")
                   ? read_keep(v, out, err)
                   : api_keys_read_number(name, v, role != NULL, out, err);
    }
    if (code != LR_OK)
        return code;
    if (role != NULL && *role != ROUTER_NODE && (out->given & ROUTER_KEY_USES) != 0)
        return lr_fail_plain(err, key_uses);
    if (role != NULL && out->to.keep_texts && !may_keep_texts(*role))
        return fail_texts(err);
    if (role == NULL && out->given == 0)
        return lr_fail_plain(err, key_no_change);
    out->to.role = role != NULL ? *role : ROUTER_PUBLIC;
    return LR_OK;
}

/* ---- a key as the answers have it ---- */

/* Texts by spaces, as an array; nothing where there are none. */
void router_put_words(struct lr_json_writer *w, const char *name, const char *words)
{
    struct lr_str rest = lr_str_z(words), one;
    if (rest.len == 0)
        return;
    lr_json_member_array(w, name);
    while (lr_str_split(&rest, ' ', &one))
        lr_json_put_str(w, one);
    lr_json_end_array(w);
}

/* What is 0 or empty is left out; text is known only while the key is made.  Lock held, or the
 * key is nobody else's yet. */
static void put_members(struct lr_json_writer *w, struct router_key *key, const char *text)
{
    int64_t now_ms = lr_clock_wall_ms(&router_clock);
    const struct lr_json_field fields[] = {
        LR_INT("expires", key->expires_ms / 1000),
        LR_INT("revoked", key->revoked_ms / 1000),
        LR_INT("last_used", (int64_t)(key->used_ms / 1000)),
        LR_INT("requests_per_minute", (int64_t)key->requests_per_minute),
        LR_INT("tokens_per_minute", (int64_t)key->tokens_per_minute),
        LR_INT("tokens_per_month", (int64_t)key->tokens_per_month),
        LR_INT("tokens_per_month_soft", (int64_t)key->tokens_per_month_soft),
        LR_INT("concurrent_requests", (int64_t)key->concurrent_requests),
        LR_INT("request_bytes", (int64_t)key->request_bytes),
        LR_INT("old_secret_until", key->old_until_ms > now_ms ? key->old_until_ms / 1000 : 0),
    };
    LR_JSON_MEMBERS(w, LR_TEXT("id", key->id), LR_TEXT("name", key->name),
                    LR_TEXT("role", router_role_name(key->role)));
    if (text != NULL)
        lr_json_member_z(w, "key", text);
    lr_json_member_i64(w, "created", key->created_ms / 1000);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        lr_json_put_fields(w, &fields[i], fields[i].i64 != 0);
    if (key->role == ROUTER_NODE) /* uses 0: any number of nodes */
        LR_JSON_MEMBERS(w, LR_UINT("uses", key->uses), LR_UINT("joins", key->joins));
    else
        lr_json_member_i64(w, "month_tokens", router_budget_used(&key->month, now_ms));
    if (key->owner[0] != '\0')
        lr_json_member_z(w, "owner", key->owner);
    if (key->label[0] != '\0')
        lr_json_member_z(w, "label", key->label);
    if (key->role != ROUTER_NODE)
        lr_json_member_bool(w, "keep_texts", key->keep_texts != 0);
    router_put_words(w, "models", key->models);
    router_put_words(w, "addresses", key->addresses);
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

/* ---- for the audit log ---- */

/* was NULL: the key is new, and only what is set is told. */
static struct router_change api_keys_compare(const struct router_key *was,
                                             const struct router_key *is)
{
    struct router_change c = {0};
    const struct {
        const char *name, *before, *after;
    } lists[] = {{"models", was != NULL ? was->models : NULL, is->models},
                 {"addresses", was != NULL ? was->addresses : NULL, is->addresses}};
    if (was == NULL)
        router_change_text(&c, "role", NULL, router_role_name(is->role));
    for (size_t i = 0; i < TEXTS; i++) {
        const char *after = (const char *)is + texts[i].offset;
        if (was != NULL || after[0] != '\0')
            router_change_text(&c, texts[i].name,
                               was != NULL ? (const char *)was + texts[i].offset : NULL, after);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t before = 0, after;
        if (numbers[i].offset == 0)
            continue;
        memcpy(&after, (const char *)is + numbers[i].offset, sizeof(after));
        if (was != NULL)
            memcpy(&before, (const char *)was + numbers[i].offset, sizeof(before));
        if (before != after)
            router_change_number(&c, numbers[i].name, was != NULL ? (int64_t)before : -1,
                                 (int64_t)after);
    }
    if (was != NULL || is->expires_ms != 0)
        router_change_number(&c, "expires", was != NULL ? was->expires_ms / 1000 : -1,
                             is->expires_ms / 1000);
    if (was != NULL || is->keep_texts)
        router_change_flag(&c, "keep_texts", was != NULL && was->keep_texts, is->keep_texts);
    if (was != NULL)
        router_change_number(&c, "revoked", was->revoked_ms / 1000, is->revoked_ms / 1000);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (was != NULL || lists[i].after[0] != '\0')
            router_change_words(&c, lists[i].name, lists[i].before, lists[i].after);
    return c;
}

/* ---- making ---- */

/* In the request's memory. */
struct making {
    struct router_key key;
    char text[ROUTER_KEY_TEXT];
};

static lr_code api_keys_insert(struct router_sql *sql, void *arg, struct lr_error *err)
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
    router_key_draw(&m->key, lr_clock_wall_ms(&router_clock), m->text);
    if (m->key.role == ROUTER_NODE)
        (void)snprintf(detail, sizeof(detail), "node uses=%llu",
                       (unsigned long long)m->key.uses);
    else
        (void)snprintf(detail, sizeof(detail), "%s", router_role_name(m->key.role));
    struct router_change values = api_keys_compare(NULL, &m->key);
    struct router_action action = {"key.create", m->key.id, detail, .change = &values};
    return router_act(req, &action, api_keys_insert, inserted, m, err);
}

lr_code router_api_key_create(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_key_change wanted;
    enum router_role role = ROUTER_API;
    lr_code code = api_keys_read_key(req, &role, &wanted, err);
    if (code != LR_OK)
        return code;
    /* A key that lets machines in is not for ever. */
    uint64_t life_ms = lr_settings_ms(r->settings, "node-key-life");
    if (role == ROUTER_NODE && (wanted.given & ROUTER_KEY_EXPIRY) == 0 && life_ms != 0)
        wanted.to.expires_ms = lr_clock_wall_ms(&router_clock) + (int64_t)life_ms;
    return make_key(req, &wanted.to, err);
}

/* What `llm-router nodes token` asks for: unless told otherwise for one node, within an hour.
 */
lr_code router_api_node_token(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_key_change wanted;
    enum router_role role = ROUTER_NODE;
    lr_code code = api_keys_read_key(req, &role, &wanted, err);
    (void)r;
    if (code == LR_OK && role != ROUTER_NODE)
        code = lr_fail_plain(err, join_token_role);
    if (code != LR_OK)
        return code;
    struct router_key *key = &wanted.to;
    if ((wanted.given & ROUTER_KEY_NAME) == 0)
        LR_COPY(key->name, LR_STR_LIT("join token"));
    if ((wanted.given & ROUTER_KEY_USES) == 0)
        key->uses = 1;
    if ((wanted.given & ROUTER_KEY_EXPIRY) == 0)
        key->expires_ms = lr_clock_wall_ms(&router_clock) + TOKEN_LIFE_MS;
    return make_key(req, key, err);
}

/* ---- changing and revoking ---- */

/* In the request's memory. */
struct changing {
    char id[24];
    bool is_revoked; /* already */
    struct router_key was;
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
        m->was = *key;
        m->is_revoked = key->revoked_ms != 0;
    }
    router_unlock(r);
    return key != NULL ? LR_OK : lr_fail_as(err, absent_key, id);
}

static struct router_change compare_changed(const struct changing *m)
{
    struct router_key is = m->was;
    router_key_apply(&is, &m->change);
    return api_keys_compare(&m->was, &is);
}

static lr_code api_keys_change(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct changing *m = arg;
    return router_key_update(sql, m->id, &m->change, err);
}

static void apply(struct net_request *req, const struct changing *m, struct lr_json_writer *w)
{
    struct router *r = router_access(req)->router;
    router_lock(r);
    struct router_key *key = router_keys_find(&r->keys, lr_str_z(m->id));
    router_keys_change(&r->keys, key, &m->change);
    if (w != NULL)
        put_members(w, key, NULL);
    router_unlock(r);
}

static lr_code api_keys_changed(struct net_request *req, void *arg, struct lr_error *err)
{
    (void)err;
    apply(req, arg, router_answer_begin(req));
    return router_answer(req, 200);
}

/* What was changed, for the audit log: "name=... requests_per_minute=..." */
static void api_keys_describe(const struct router_key_change *change, struct lr_buf *detail)
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
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t number;
        if ((given & numbers[i].field) == 0 ||
            (numbers[i].field & (ROUTER_KEY_REQUESTS | ROUTER_KEY_TOKENS | ROUTER_KEY_EXPIRY |
                                 ROUTER_KEY_USES)) != 0)
            continue;
        memcpy(&number, (const char *)to + numbers[i].offset, sizeof(number));
        lr_buf_addf(detail, "%s=%llu ", numbers[i].name, (unsigned long long)number);
    }
    if ((given & ROUTER_KEY_OWNER) != 0)
        lr_buf_addf(detail, "owner=\"%s\" ", to->owner);
    if ((given & ROUTER_KEY_LABEL) != 0)
        lr_buf_addf(detail, "label=\"%s\" ", to->label);
    if ((given & ROUTER_KEY_FROM) != 0)
        lr_buf_addf(detail, "addresses=%s ", to->addresses[0] != '\0' ? to->addresses : "any");
    if ((given & ROUTER_KEY_TEXTS) != 0)
        lr_buf_addf(detail, "keep_texts=%s ", to->keep_texts ? "true" : "false");
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
        code = lr_fail_as(err, key_gone, m->id);
    if (code == LR_OK)
        code = api_keys_read_key(req, NULL, &m->change, err);
    if (code == LR_OK && m->change.to.keep_texts && !may_keep_texts(m->was.role))
        code = fail_texts(err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&detail, 4096);
    api_keys_describe(&m->change, &detail);
    struct router_change values = compare_changed(m);
    struct router_action action = {"key.change", m->id, lr_buf_z(&detail), .change = &values};
    code = router_act(req, &action, api_keys_change, api_keys_changed, m, err);
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
        m->change = (struct router_key_change){
            .given = ROUTER_KEY_REVOKED, .to.revoked_ms = lr_clock_wall_ms(&router_clock)};
    struct router_change values = compare_changed(m);
    struct router_action action = {"key.revoke", m->id, "", .change = &values};
    return router_act(req, &action, api_keys_change, revoked, m, err);
}

/* ---- rotation: a new secret, the old one for a while ---- */

/* In the request's memory. */
struct rotating {
    char id[24];
    unsigned char hash[LR_SHA256_LEN], old_hash[LR_SHA256_LEN];
    int64_t old_until_ms;
    char text[ROUTER_KEY_TEXT];
};

static lr_code api_keys_rotate(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct rotating *m = arg;
    return router_key_rotate(sql, m->id, m->hash, m->old_hash, m->old_until_ms, err);
}

static lr_code rotated(struct net_request *req, void *arg, struct lr_error *err)
{
    const struct rotating *m = arg;
    struct router *r = router_access(req)->router;
    router_lock(r);
    struct router_key *key = router_keys_find(&r->keys, lr_str_z(m->id));
    lr_code code =
        router_keys_rotate(&r->keys, key, m->hash, m->old_hash, m->old_until_ms, err);
    if (code == LR_OK)
        put_members(router_answer_begin(req), key, m->text);
    router_unlock(r);
    return code == LR_OK ? router_answer(req, 200) : code;
}

static lr_code read_overlap(struct net_request *req, uint64_t *overlap_s, struct lr_error *err)
{
    const struct lr_json *body;
    *overlap_s = OVERLAP_S;
    if (net_request_body(req).len == 0)
        return LR_OK;
    lr_code code = router_body(req, &body, err);
    for (uint32_t i = 0; code == LR_OK && i < body->count; i++)
        if (!lr_str_eq_z(body->members[i].key, "overlap"))
            code = lr_fail_plain(err, key_overlap_alone);
        else if (!lr_json_u64(&body->members[i].value, overlap_s) || *overlap_s > OVERLAP_MAX_S)
            code = lr_fail_as(err, key_overlap, OVERLAP_MAX_S);
    return code;
}

lr_code router_api_key_rotate(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct rotating *m = router_memory(req, sizeof(*m), err);
    struct changing *found;
    uint64_t overlap_s;
    char detail[48];
    if (m == NULL)
        return LR_OUT_OF_RAM;
    lr_code code = find_key(r, req, &found, err);
    if (code == LR_OK && found->is_revoked)
        code = lr_fail_as(err, key_gone, found->id);
    if (code == LR_OK)
        code = read_overlap(req, &overlap_s, err);
    if (code != LR_OK)
        return code;
    memcpy(m->id, found->id, sizeof(m->id));
    router_key_draw_secret(m->hash, m->text);
    memcpy(m->old_hash, found->was.hash, LR_SHA256_LEN);
    if (overlap_s != 0)
        m->old_until_ms = lr_clock_wall_ms(&router_clock) + (int64_t)overlap_s * 1000;
    (void)snprintf(detail, sizeof(detail), "overlap=%llu", (unsigned long long)overlap_s);
    struct router_change values = {0};
    router_change_number(&values, "old_secret_until", found->was.old_until_ms / 1000,
                         m->old_until_ms / 1000);
    struct router_action action = {"key.rotate", m->id, detail, .change = &values};
    return router_act(req, &action, api_keys_rotate, rotated, m, err);
}
