/* router/store/keys.h - API keys: what each may do, and how much of it.
 *
 * A key is 256 random bits behind "lr-"; only its SHA-256 is kept.  Keys stay in memory
 * for as long as the router runs, revoked ones too, so a pointer to one stays good.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_STORE_KEYS_H
#define ROUTER_STORE_KEYS_H

#include "base/bucket.h"
#include "base/sha256.h"
#include "base/strmap.h"
#include "router/store/budget.h"
#include "router/store/sql.h"

/* What a route asks for.  admin may do what each of the others may; viewer may read what admin
 * and metrics may, and changes nothing. */
enum router_role {
    ROUTER_PUBLIC,
    ROUTER_API,
    ROUTER_ADMIN,
    ROUTER_NODE,
    ROUTER_METRICS,
    ROUTER_VIEWER
};

enum {
    ROUTER_KEY_RANDOM = 43,                      /* base62 characters: 256 bits */
    ROUTER_KEY_TEXT = 3 + ROUTER_KEY_RANDOM + 1, /* "lr-", terminated */
    ROUTER_KEY_MODELS = 1024,                    /* bytes of the list, terminated */
    ROUTER_KEY_ADDRESSES = 768,                  /* likewise */
};

struct router_key {
    char id[24];
    char name[64];
    enum router_role role;
    unsigned char hash[LR_SHA256_LEN];
    int64_t created_ms, expires_ms, revoked_ms;      /* wall; 0: never */
    uint64_t requests_per_minute, tokens_per_minute; /* 0: no limit */
    char models[ROUTER_KEY_MODELS];                  /* ids it may use, by spaces; "": all */
    char owner[64], label[64];
    char addresses[ROUTER_KEY_ADDRESSES]; /* networks it may come from, by spaces; "": any */
    uint64_t tokens_per_month, tokens_per_month_soft; /* 0: no budget */
    uint64_t concurrent_requests, request_bytes;      /* 0: no limit */
    uint64_t keep_texts; /* 1: the request log keeps its prompts and answers; else 0 */
    unsigned char old_hash[LR_SHA256_LEN]; /* of the secret before the last rotation */
    int64_t old_until_ms;                  /* wall: until then it is valid; 0: there is none */
    uint64_t uses, joins; /* role node: how many nodes it lets in, 0: any number; and has */
    uint64_t number;      /* for the scheduler; 0 is the caller without a key */
    bool is_own; /* this program made it for a node that it starts itself; never stored */
    /* A person who signed in with an OpenID provider has no key; this struct carries the rights
     * and the use of that person (http/session.h).  The name in the audit log; "": a key. */
    char person[96];
    /* live */
    struct lr_bucket requests, tokens, sign_ins;
    uint64_t refused_ms; /* monotonic: when it last counted as a wrong key; 0: never */
    struct router_budget month;
    uint64_t running;                    /* requests of this router */
    bool is_near_budget, is_over_budget; /* an alert is open */
    uint64_t used_ms;                    /* wall */
};

/* What can be said of a key when it is made, and said anew later; the rest is fixed. */
enum router_key_field {
    ROUTER_KEY_NAME = 1,
    ROUTER_KEY_EXPIRY = 2,
    ROUTER_KEY_REQUESTS = 4,
    ROUTER_KEY_TOKENS = 8,
    ROUTER_KEY_MAY_USE = 16,
    ROUTER_KEY_USES = 32, /* of a new key only */
    ROUTER_KEY_REVOKED = 64,
    ROUTER_KEY_OWNER = 128,
    ROUTER_KEY_LABEL = 256,
    ROUTER_KEY_FROM = 512,
    ROUTER_KEY_MONTH = 1024,
    ROUTER_KEY_MONTH_SOFT = 2048,
    ROUTER_KEY_CONCURRENT = 4096,
    ROUTER_KEY_BYTES = 8192,
    ROUTER_KEY_TEXTS = 16384,
};

struct router_key_change {
    unsigned given; /* of enum router_key_field; only those members of `to` count */
    struct router_key to;
};

struct router_keys {
    struct router_key **all; /* owned */
    size_t count, capacity;
    struct lr_strmap by_hash; /* of secrets that were valid once, too */
    struct lr_strmap by_id;
    int64_t month;    /* whose tokens were read (router_keys_load_month); 0: none */
    uint32_t routers; /* that share the database: each has this part of a key's limits */
    /* The texts of this key's requests are kept no longer; NULL: nobody asks. */
    void (*on_texts_off)(void *arg, const struct router_key *key);
    void *arg; /* of on_texts_off */
};

void router_keys_init(struct router_keys *keys);
void router_keys_free(struct router_keys *keys);
LR_MUST_USE lr_code router_keys_load(struct router_keys *keys, struct router_sql *sql,
                                     struct lr_error *err);

const char *router_role_name(enum router_role role);
bool router_role_find(struct lr_str name, enum router_role *out); /* each but public */

/* A new secret for a key: fills `hash`, and the text that only the key's owner will know. */
void router_key_draw_secret(unsigned char hash[LR_SHA256_LEN], char text[ROUTER_KEY_TEXT]);
/* Fills *key (id, hash, created_ms) and the text that only its owner will know. */
void router_key_draw(struct router_key *key, int64_t now_ms, char text[ROUTER_KEY_TEXT]);

/* Copies it in.  CONFLICT never happens by chance. */
LR_MUST_USE lr_code router_keys_add(struct router_keys *keys, const struct router_key *key,
                                    struct lr_error *err);
struct router_key *router_keys_find(const struct router_keys *keys, struct lr_str id);

/* The key with this text if it was ever issued; it may have expired or be revoked.  NULL: it
 * was not. */
struct router_key *router_keys_issued(const struct router_keys *keys, struct lr_str text);
/* UNAUTHENTICATED says whether it is unknown, expired or revoked. */
LR_MUST_USE lr_code router_keys_check(const struct router_keys *keys, struct lr_str text,
                                      int64_t now_ms, struct router_key **out,
                                      struct lr_error *err);

/* The key has this secret from now on, and the one before until a time (0: not any more). */
LR_MUST_USE lr_code router_keys_rotate(struct router_keys *keys, struct router_key *key,
                                       const unsigned char hash[LR_SHA256_LEN],
                                       const unsigned char old_hash[LR_SHA256_LEN],
                                       int64_t old_until_ms, struct lr_error *err);
/* What another router has changed of a key that this one knows. */
void router_keys_merge(struct router_keys *keys, struct router_key *known,
                       const struct router_key *read);

/* PERMISSION_DENIED: the key may not be used from this address. */
LR_MUST_USE lr_code router_key_check_address(const struct router_key *key, const char *from,
                                             struct lr_error *err);

/* Neither revoked nor expired. */
static inline bool router_key_is_good(const struct router_key *key, int64_t now_ms)
{
    return key->revoked_ms == 0 && (key->expires_ms == 0 || key->expires_ms > now_ms);
}

/* A join token that has let in as many nodes as it was made for. */
static inline bool router_key_is_spent(const struct router_key *key)
{
    return key->uses != 0 && key->joins >= key->uses;
}
LR_MUST_USE lr_code router_key_fail_spent(const struct router_key *key, struct lr_error *err);

bool router_keys_has_admin(const struct router_keys *keys, int64_t now_ms);

/* NOT_FOUND: a key for other models is told the same as of a model that is not there.  Without
 * a key (NULL) every model may be used. */
LR_MUST_USE lr_code router_fail_no_model(struct lr_str model, struct lr_error *err);
LR_MUST_USE lr_code router_key_check_model(const struct router_key *key, struct lr_str model,
                                           struct lr_error *err);

void router_key_apply(struct router_key *key, const struct router_key_change *change);
/* The same for a key of this list. */
void router_keys_change(struct router_keys *keys, struct router_key *key,
                        const struct router_key_change *change);

/* The tokens of this month of every key.  Thread: the database's, or before the start. */
LR_MUST_USE lr_code router_keys_load_month(struct router_keys *keys, struct router_sql *sql,
                                           int64_t wall_ms, struct lr_error *err);

/* The month is none of those whose tokens were read.  Lock held. */
bool router_keys_lack_month(const struct router_keys *keys, int64_t wall_ms);

/* For router_store_submit. */
LR_MUST_USE lr_code router_key_rotate(struct router_sql *sql, const char *id,
                                      const unsigned char hash[LR_SHA256_LEN],
                                      const unsigned char old_hash[LR_SHA256_LEN],
                                      int64_t old_until_ms, struct lr_error *err);
LR_MUST_USE lr_code router_key_insert(struct router_sql *sql, const struct router_key *key,
                                      struct lr_error *err);

/* Counts a node that a token lets in.  UNAUTHENTICATED: the token is spent, which other routers
 * may have done. */
LR_MUST_USE lr_code router_key_join(struct router_sql *sql, const struct router_key *key,
                                    struct lr_error *err);

/* Only what was given: two admins who change different things do not undo each other. */
LR_MUST_USE lr_code router_key_update(struct router_sql *sql, const char *id,
                                      const struct router_key_change *change,
                                      struct lr_error *err);

#endif
