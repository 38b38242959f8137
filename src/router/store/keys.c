#include "router/store/keys.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/random.h"
#include "net/cidr.h"
#include "router/store/responses.h"
#include "router/store/sessions.h"

static const char *const role_names[] = {
    [ROUTER_PUBLIC] = "public", [ROUTER_API] = "api",         [ROUTER_ADMIN] = "admin",
    [ROUTER_NODE] = "node",     [ROUTER_METRICS] = "metrics", [ROUTER_VIEWER] = "viewer",
};

const char *router_role_name(enum router_role role)
{
    return role_names[role];
}

bool router_role_find(struct lr_str name, enum router_role *out)
{
    for (enum router_role r = ROUTER_API; r <= ROUTER_VIEWER; r++)
        if (lr_str_eq_z(name, role_names[r])) {
            *out = r;
            return true;
        }
    return false;
}

void router_keys_init(struct router_keys *keys)
{
    *keys = (struct router_keys){.routers = 1};
    lr_strmap_init(&keys->by_hash);
    lr_strmap_init(&keys->by_id);
}

void router_keys_free(struct router_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        free(keys->all[i]);
    free(keys->all);
    lr_strmap_free(&keys->by_hash);
    lr_strmap_free(&keys->by_id);
}

static struct lr_str hash_of(const struct router_key *key)
{
    return lr_str((const char *)key->hash, sizeof(key->hash));
}

static struct lr_str old_hash_of(const struct router_key *key)
{
    return lr_str((const char *)key->old_hash, sizeof(key->old_hash));
}

static bool keys_grow(struct router_keys *keys)
{
    if (keys->count < keys->capacity)
        return true;
    size_t capacity = keys->capacity != 0 ? 2 * keys->capacity : 16;
    struct router_key **grown = realloc(keys->all, capacity * sizeof(struct router_key *));
    if (grown == NULL)
        return false;
    keys->all = grown;
    keys->capacity = capacity;
    return true;
}

lr_code router_keys_add(struct router_keys *keys, const struct router_key *key,
                        struct lr_error *err)
{
    struct router_key *copy = malloc(sizeof(*copy));
    if (copy == NULL || !keys_grow(keys) ||
        !lr_strmap_put(&keys->by_id, lr_str_z(key->id), copy, NULL)) {
        free(copy);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a key");
    }
    *copy = *key;
    if (!lr_strmap_put(&keys->by_hash, hash_of(key), copy, NULL) ||
        (key->old_until_ms != 0 &&
         !lr_strmap_put(&keys->by_hash, old_hash_of(key), copy, NULL))) {
        (void)lr_strmap_remove(&keys->by_id, lr_str_z(key->id));
        (void)lr_strmap_remove(&keys->by_hash, hash_of(key));
        free(copy);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a key");
    }
    copy->number = keys->count + 1;
    keys->all[keys->count++] = copy;
    return LR_OK;
}

struct router_key *router_keys_find(const struct router_keys *keys, struct lr_str id)
{
    return lr_strmap_get(&keys->by_id, id);
}

void router_key_draw_secret(unsigned char hash[LR_SHA256_LEN], char text[ROUTER_KEY_TEXT])
{
    (void)snprintf(text, ROUTER_KEY_TEXT, "lr-");
    lr_random_base62(text + 3, ROUTER_KEY_RANDOM);
    lr_sha256_of(lr_str_z(text), hash);
}

void router_key_draw(struct router_key *key, int64_t now_ms, char text[ROUTER_KEY_TEXT])
{
    (void)snprintf(key->id, sizeof(key->id), "key-");
    lr_random_base62(key->id + 4, 12);
    router_key_draw_secret(key->hash, text);
    key->created_ms = now_ms;
}

static struct router_key *find_by_text(const struct router_keys *keys, struct lr_str text,
                                       unsigned char hash[LR_SHA256_LEN])
{
    lr_sha256_of(text, hash);
    return lr_strmap_get(&keys->by_hash, lr_str((const char *)hash, LR_SHA256_LEN));
}

struct router_key *router_keys_issued(const struct router_keys *keys, struct lr_str text)
{
    unsigned char hash[LR_SHA256_LEN];
    return find_by_text(keys, text, hash);
}

lr_code router_keys_rotate(struct router_keys *keys, struct router_key *key,
                           const unsigned char hash[LR_SHA256_LEN],
                           const unsigned char old_hash[LR_SHA256_LEN], int64_t old_until_ms,
                           struct lr_error *err)
{
    if (!lr_strmap_put(&keys->by_hash, lr_str((const char *)hash, LR_SHA256_LEN), key, NULL) ||
        !lr_strmap_put(&keys->by_hash, lr_str((const char *)old_hash, LR_SHA256_LEN), key,
                       NULL))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a secret");
    memcpy(key->hash, hash, LR_SHA256_LEN);
    memcpy(key->old_hash, old_hash, LR_SHA256_LEN);
    key->old_until_ms = old_until_ms;
    return LR_OK;
}

void router_keys_merge(struct router_keys *keys, struct router_key *known,
                       const struct router_key *read)
{
    known->joins = read->joins;
    router_keys_change(keys, known, &(struct router_key_change){.given = ~0U, .to = *read});
    router_budget_set(&known->month, read->month.months[0].month, read->month.months[0].known);
    if (memcmp(known->hash, read->hash, LR_SHA256_LEN) == 0 &&
        known->old_until_ms == read->old_until_ms)
        return;
    lr_code ignored =
        router_keys_rotate(keys, known, read->hash, read->old_hash, read->old_until_ms, NULL);
    (void)ignored; /* without memory: the next reading tries again */
}

/* The secret before the last rotation is good for a while; older ones are not. */
static bool keys_is_replaced(const struct router_key *key,
                             const unsigned char hash[LR_SHA256_LEN], int64_t now_ms)
{
    return memcmp(key->hash, hash, LR_SHA256_LEN) != 0 &&
           (memcmp(key->old_hash, hash, LR_SHA256_LEN) != 0 || key->old_until_ms <= now_ms);
}

lr_code router_keys_check(const struct router_keys *keys, struct lr_str text, int64_t now_ms,
                          struct router_key **out, struct lr_error *err)
{
    unsigned char hash[LR_SHA256_LEN];
    struct router_key *key = find_by_text(keys, text, hash);
    *out = NULL;
    if (key == NULL)
        return lr_fail_plain(err, key_unknown);
    if (key->revoked_ms != 0)
        return lr_fail_as(err, key_was_revoked, key->id, key->name);
    if (!router_key_is_good(key, now_ms))
        return lr_fail_as(err, key_expired, key->id, key->name);
    if (keys_is_replaced(key, hash, now_ms))
        return lr_fail_as(err, key_replaced, key->id, key->name);
    key->used_ms = (uint64_t)now_ms;
    *out = key;
    return LR_OK;
}

lr_code router_key_fail_spent(const struct router_key *key, struct lr_error *err)
{
    return lr_fail_as(err, token_used, key->id, key->uses, key->uses == 1 ? "" : "s");
}

bool router_keys_has_admin(const struct router_keys *keys, int64_t now_ms)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct router_key *k = keys->all[i];
        if (k->role == ROUTER_ADMIN && router_key_is_good(k, now_ms))
            return true;
    }
    return false;
}

lr_code router_fail_no_model(struct lr_str model, struct lr_error *err)
{
    return lr_fail_as(err, no_model, model);
}

lr_code router_key_check_model(const struct router_key *key, struct lr_str model,
                               struct lr_error *err)
{
    struct lr_str rest = lr_str_z(key != NULL ? key->models : ""), one;
    if (rest.len == 0)
        return LR_OK;
    while (lr_str_split(&rest, ' ', &one))
        if (lr_str_eq_nocase(one, model))
            return LR_OK;
    return router_fail_no_model(model, err);
}

/* What can be changed of a key: its statement, and where it stands in struct router_key. */
#define CHANGE(field, member, is_text)                                                         \
    {                                                                                          \
        field, "UPDATE keys SET " #member " = $1 WHERE id = $2",                               \
            offsetof(struct router_key, member), sizeof(((struct router_key *)0)->member),     \
            is_text                                                                            \
    }
static const struct {
    enum router_key_field field;
    const char *update;
    size_t offset, size;
    bool is_text; /* else an int64_t or a uint64_t */
} changes[] = {
    CHANGE(ROUTER_KEY_NAME, name, true),
    CHANGE(ROUTER_KEY_EXPIRY, expires_ms, false),
    CHANGE(ROUTER_KEY_REQUESTS, requests_per_minute, false),
    CHANGE(ROUTER_KEY_TOKENS, tokens_per_minute, false),
    CHANGE(ROUTER_KEY_MAY_USE, models, true),
    CHANGE(ROUTER_KEY_REVOKED, revoked_ms, false),
    CHANGE(ROUTER_KEY_OWNER, owner, true),
    CHANGE(ROUTER_KEY_LABEL, label, true),
    CHANGE(ROUTER_KEY_FROM, addresses, true),
    CHANGE(ROUTER_KEY_MONTH, tokens_per_month, false),
    CHANGE(ROUTER_KEY_MONTH_SOFT, tokens_per_month_soft, false),
    CHANGE(ROUTER_KEY_CONCURRENT, concurrent_requests, false),
    CHANGE(ROUTER_KEY_BYTES, request_bytes, false),
    CHANGE(ROUTER_KEY_TEXTS, keep_texts, false),
};
#undef CHANGE
enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };

void router_key_apply(struct router_key *key, const struct router_key_change *change)
{
    for (size_t i = 0; i < CHANGES; i++)
        if ((change->given & changes[i].field) != 0)
            memcpy((char *)key + changes[i].offset,
                   (const char *)&change->to + changes[i].offset, changes[i].size);
}

static bool keeps_texts(const struct router_key *key)
{
    return key->keep_texts != 0 && key->revoked_ms == 0;
}

void router_keys_change(struct router_keys *keys, struct router_key *key,
                        const struct router_key_change *change)
{
    bool kept = keeps_texts(key);
    router_key_apply(key, change);
    if (kept && !keeps_texts(key) && keys->on_texts_off != NULL)
        keys->on_texts_off(keys->arg, key);
}

/* ---- addresses ---- */

lr_code router_key_check_address(const struct router_key *key, const char *from,
                                 struct lr_error *err)
{
    struct lr_str rest = lr_str_z(key->addresses), one;
    struct net_cidrs networks = {.count = 0};
    char text[NET_ADDRESS_TEXT + 8];
    if (rest.len == 0)
        return LR_OK;
    while (networks.count < NET_CIDRS_MAX && lr_str_split(&rest, ' ', &one)) {
        LR_COPY(text, one);
        networks.count += net_cidr_parse(text, &networks.items[networks.count], NULL) == LR_OK;
    }
    return net_cidrs_have(&networks, from)
               ? LR_OK
               : lr_fail_as(err, key_address_refused, key->id, from);
}

/* ---- the database ---- */

lr_code router_key_insert(struct router_sql *sql, const struct router_key *key,
                          struct lr_error *err)
{
    char hash[LR_SHA256_HEX_LEN + 1];
    /* The release before knows no viewers (schema.c). */
    enum router_role stored_role = key->role == ROUTER_VIEWER ? ROUTER_METRICS : key->role;
    lr_sha256_hex(key->hash, hash);
    return ROUTER_SQL(
        sql,
        "INSERT INTO keys (id, name, role, hash, created_ms, expires_ms, "
        "revoked_ms, requests_per_minute, tokens_per_minute, models, uses, "
        "joins, owner, label, addresses, tokens_per_month, "
        "tokens_per_month_soft, concurrent_requests, request_bytes, viewer, keep_texts) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13, $14, $15, $16, "
        "$17, $18, $19, $20)",
        NULL, NULL, err, ROUTER_Z(key->id), ROUTER_Z(key->name),
        ROUTER_Z(router_role_name(stored_role)), ROUTER_Z(hash), ROUTER_INT(key->created_ms),
        ROUTER_INT(key->expires_ms), ROUTER_INT(key->revoked_ms),
        ROUTER_INT(key->requests_per_minute), ROUTER_INT(key->tokens_per_minute),
        ROUTER_Z(key->models), ROUTER_INT(key->uses), ROUTER_Z(key->owner),
        ROUTER_Z(key->label), ROUTER_Z(key->addresses), ROUTER_INT(key->tokens_per_month),
        ROUTER_INT(key->tokens_per_month_soft), ROUTER_INT(key->concurrent_requests),
        ROUTER_INT(key->request_bytes), ROUTER_INT(key->role == ROUTER_VIEWER),
        ROUTER_INT(key->keep_texts));
}

lr_code router_key_rotate(struct router_sql *sql, const char *id,
                          const unsigned char hash[LR_SHA256_LEN],
                          const unsigned char old_hash[LR_SHA256_LEN], int64_t old_until_ms,
                          struct lr_error *err)
{
    char text[LR_SHA256_HEX_LEN + 1], old_text[LR_SHA256_HEX_LEN + 1];
    lr_sha256_hex(hash, text);
    lr_sha256_hex(old_hash, old_text);
    return ROUTER_SQL(sql,
                      "UPDATE keys SET hash = $2, old_hash = $3, old_until_ms = $4 WHERE id = "
                      "$1",
                      NULL, NULL, err, ROUTER_Z(id), ROUTER_Z(text), ROUTER_Z(old_text),
                      ROUTER_INT(old_until_ms));
}

lr_code router_key_update(struct router_sql *sql, const char *id,
                          const struct router_key_change *change, struct lr_error *err)
{
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < CHANGES; i++) {
        const char *at = (const char *)&change->to + changes[i].offset;
        int64_t number = 0;
        if ((change->given & changes[i].field) == 0)
            continue;
        if (!changes[i].is_text)
            memcpy(&number, at, sizeof(number));
        code = ROUTER_SQL(sql, changes[i].update, NULL, NULL, err,
                          changes[i].is_text ? ROUTER_Z(at) : ROUTER_INT(number), ROUTER_Z(id));
    }
    if (code == LR_OK && (change->given & ROUTER_KEY_REVOKED) != 0)
        code = router_responses_expire(sql, id, err);
    if (code == LR_OK && (change->given & ROUTER_KEY_REVOKED) != 0)
        code = router_session_delete_of(sql, id, err);
    return code;
}

/* The first statement locks the row: of two routers one counts after the other. */
lr_code router_key_join(struct router_sql *sql, const struct router_key *key,
                        struct lr_error *err)
{
    int64_t over = 0;
    lr_code code = ROUTER_SQL(sql, "UPDATE keys SET joins = joins + 1 WHERE id = $1", NULL,
                              NULL, err, ROUTER_Z(key->id));
    if (code == LR_OK)
        code = ROUTER_SQL(sql, "SELECT joins - uses FROM keys WHERE id = $1", router_row_number,
                          &over, err, ROUTER_Z(key->id));
    return code == LR_OK && over > 0 ? router_key_fail_spent(key, err) : code;
}

static lr_code keys_load_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct router_keys *keys = ctx;
    struct router_key key = {0};
    LR_COPY(key.id, router_row_text(row, 0));
    LR_COPY(key.name, router_row_text(row, 1));
    if (!router_role_find(router_row_text(row, 2), &key.role) ||
        !lr_sha256_parse(router_row_text(row, 3), key.hash))
        return lr_fail(err, LR_IO, "the database holds a damaged key %s", key.id);
    key.created_ms = router_row_int(row, 4);
    key.expires_ms = router_row_int(row, 5);
    key.revoked_ms = router_row_int(row, 6);
    key.requests_per_minute = (uint64_t)router_row_int(row, 7);
    key.tokens_per_minute = (uint64_t)router_row_int(row, 8);
    LR_COPY(key.models, router_row_text(row, 9));
    key.uses = (uint64_t)router_row_int(row, 10);
    key.joins = (uint64_t)router_row_int(row, 11);
    LR_COPY(key.owner, router_row_text(row, 12));
    LR_COPY(key.label, router_row_text(row, 13));
    LR_COPY(key.addresses, router_row_text(row, 14));
    key.tokens_per_month = (uint64_t)router_row_int(row, 15);
    key.tokens_per_month_soft = (uint64_t)router_row_int(row, 16);
    key.concurrent_requests = (uint64_t)router_row_int(row, 17);
    key.request_bytes = (uint64_t)router_row_int(row, 18);
    if (lr_sha256_parse(router_row_text(row, 19), key.old_hash))
        key.old_until_ms = router_row_int(row, 20);
    if (router_row_int(row, 21) != 0)
        key.role = ROUTER_VIEWER;
    key.keep_texts = router_row_int(row, 22) != 0;
    return router_keys_add(keys, &key, err);
}

lr_code router_keys_load(struct router_keys *keys, struct router_sql *sql, struct lr_error *err)
{
    return router_sql_run(
        sql,
        "SELECT id, name, role, hash, created_ms, expires_ms, revoked_ms, "
        "requests_per_minute, tokens_per_minute, models, uses, joins, "
        "owner, label, addresses, tokens_per_month, tokens_per_month_soft, "
        "concurrent_requests, request_bytes, old_hash, old_until_ms, viewer, keep_texts FROM "
        "keys ORDER BY created_ms",
        NULL, 0, keys_load_row, keys, err);
}

static lr_code load_month(void *ctx, const struct router_month_row *row, struct lr_error *err)
{
    struct router_key *key = router_keys_find(ctx, row->key);
    (void)err;
    if (key != NULL)
        router_budget_set(&key->month, row->month, row->prompt_tokens + row->completion_tokens);
    return LR_OK;
}

lr_code router_keys_load_month(struct router_keys *keys, struct router_sql *sql,
                               int64_t wall_ms, struct lr_error *err)
{
    int64_t month = router_month_of(wall_ms);
    keys->month = month;
    for (size_t i = 0; i < keys->count; i++)
        router_budget_set(&keys->all[i]->month, month, 0);
    return router_month_read(sql, month, NULL, load_month, keys, err);
}

bool router_keys_lack_month(const struct router_keys *keys, int64_t wall_ms)
{
    int64_t month = router_month_of(wall_ms);
    size_t i = 0;
    while (i < keys->count && router_budget_is_read(&keys->all[i]->month, month))
        i++;
    return i < keys->count;
}
