/* router/store/schema.c - the tables, and how an older database becomes a newer one.
 *
 * Each step runs in a transaction of its own together with the new number, so a process
 * killed in the middle leaves the database at a step's edge.  Steps are never changed
 * once released; new ones are added at the end.  Live state (loads, queues, heartbeats) is
 * never in here, but for the one row that a router tells the other routers of itself.
 *
 * Two numbers are kept (docs/adr/0061).  schema_version is what an older program compares with
 * the steps that it knows: it refuses a higher number.  An additive step leaves that number as
 * it is and is counted in schema_additions.  So after additive steps the release before can use
 * the same database: when an operator goes back to it, and while it hands over to its
 * successor.  A step is additive if every statement of the release before still works: new
 * tables, new indexes, new columns with a default.
 */
#include <stdio.h>

#include "base/arena.h"
#include "base/failpoint.h"
#include "router/store/budget.h"
#include "router/store/history.h"
#include "router/store/secrets.h"
#include "router/store/sql.h"

/* Times are milliseconds since 1970, 0 is never.  Texts rather than types of one
 * database, so that both read the same statements. */
static const char *const step_1[] = {
    "CREATE TABLE keys (id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, "
    "hash TEXT NOT NULL UNIQUE, created_ms BIGINT NOT NULL, expires_ms BIGINT NOT NULL, "
    "revoked_ms BIGINT NOT NULL, requests_per_minute BIGINT NOT NULL, "
    "tokens_per_minute BIGINT NOT NULL)",
    "CREATE TABLE models (folded_id TEXT PRIMARY KEY, id TEXT NOT NULL, source TEXT NOT NULL, "
    "format TEXT NOT NULL, manifest TEXT NOT NULL, chat_template TEXT NOT NULL, "
    "created_ms BIGINT NOT NULL)",
    "CREATE TABLE nodes (id TEXT PRIMARY KEY, name TEXT NOT NULL, url TEXT NOT NULL, "
    "secret TEXT NOT NULL, device TEXT NOT NULL, joined_ms BIGINT NOT NULL, "
    "drained BIGINT NOT NULL)",
    "CREATE TABLE usage (time_ms BIGINT NOT NULL, key_id TEXT NOT NULL, model TEXT NOT NULL, "
    "node TEXT NOT NULL, request_id TEXT NOT NULL, status BIGINT NOT NULL, "
    "prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL, "
    "cached_tokens BIGINT NOT NULL, wait_ms BIGINT NOT NULL, total_ms BIGINT NOT NULL)",
    "CREATE INDEX usage_by_time ON usage (time_ms)",
    "CREATE TABLE audit (time_ms BIGINT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, "
    "target TEXT NOT NULL, detail TEXT NOT NULL)",
    "CREATE INDEX audit_by_time ON audit (time_ms)",
    NULL,
};

/* Routers that share this database, so that nodes send heartbeats to each. */
static const char *const step_2[] = {
    "CREATE TABLE routers (url TEXT PRIMARY KEY, seen_ms BIGINT NOT NULL)",
    NULL,
};

/* Where nodes look for a local model whose name is not its folder's. */
static const char *const step_3[] = {
    "ALTER TABLE models ADD COLUMN path TEXT NOT NULL DEFAULT ''",
    NULL,
};

/* Which models a key may use, by spaces; '': all. */
static const char *const step_4[] = {
    "ALTER TABLE keys ADD COLUMN models TEXT NOT NULL DEFAULT ''",
    NULL,
};

/* Which registration of a model is the newer one, also where the name is the same: numbers
 * from a counter that outlives the models.  0 is older than all. */
static const char *const step_5[] = {
    "ALTER TABLE models ADD COLUMN generation BIGINT NOT NULL DEFAULT 0",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO counters (name, value) VALUES ('generation', 0)",
    NULL,
};

/* Secrets of nodes that the release before kept as they are become hashes (hash_secrets). */
static const char *const step_6[] = {NULL};

/* How many nodes a join token lets in (0: any number), and has let in. */
static const char *const step_7[] = {
    "ALTER TABLE keys ADD COLUMN uses BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE keys ADD COLUMN joins BIGINT NOT NULL DEFAULT 0",
    NULL,
};

/* Further names of models. */
static const char *const step_8[] = {
    "CREATE TABLE aliases (folded_name TEXT PRIMARY KEY, name TEXT NOT NULL, "
    "model TEXT NOT NULL)",
    NULL,
};

/* Stored responses (store/responses.h).  Their texts are apart from what changes often. */
static const char *const step_9[] = {
    "CREATE TABLE responses (id TEXT PRIMARY KEY, key_id TEXT NOT NULL, "
    "previous TEXT NOT NULL, status TEXT NOT NULL, running BIGINT NOT NULL, "
    "created_ms BIGINT NOT NULL, used_ms BIGINT NOT NULL, bytes BIGINT NOT NULL)",
    "CREATE INDEX responses_by_use ON responses (running, used_ms)",
    "CREATE INDEX responses_by_key ON responses (key_id, running, used_ms)",
    "CREATE TABLE response_texts (id TEXT PRIMARY KEY, input TEXT NOT NULL, "
    "output TEXT NOT NULL, answer TEXT NOT NULL, output_at BIGINT NOT NULL)",
    "CREATE TABLE response_sums (key_id TEXT PRIMARY KEY, bytes BIGINT NOT NULL)",
    NULL,
};

static lr_code hash_secrets(struct router_sql *sql, struct lr_error *err);

/* Alerts that operators have silenced (fleet/silences.h). */
static const char *const step_10[] = {
    "CREATE TABLE silences (alert BIGINT PRIMARY KEY, until_ms BIGINT NOT NULL, "
    "comment TEXT NOT NULL)",
    NULL,
};

/* Messages about alerts for the webhook (store/outbox.h). */
static const char *const step_11[] = {
    "CREATE TABLE alert_told (alert BIGINT NOT NULL, router TEXT NOT NULL, kind TEXT NOT NULL, "
    "subject TEXT NOT NULL, PRIMARY KEY (alert, router))",
    "CREATE TABLE alert_outbox (id BIGINT PRIMARY KEY, body TEXT NOT NULL)",
    "INSERT INTO counters (name, value) VALUES ('message', 0)",
    NULL,
};

/* The history of figures (store/history.h), which makes its tables itself. */
static const char *const step_12[] = {NULL};

/* Sessions of the dashboard (store/sessions.h), what is true of the whole database, and keys of
 * role viewer: the release before reads such a key as one of role metrics, which may do less.
 */
static const char *const step_13[] = {
    "CREATE TABLE sessions (hash TEXT PRIMARY KEY, key_id TEXT NOT NULL, name TEXT NOT NULL, "
    "role TEXT NOT NULL, address TEXT NOT NULL, made_ms BIGINT NOT NULL, "
    "used_ms BIGINT NOT NULL)",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "ALTER TABLE keys ADD COLUMN viewer BIGINT NOT NULL DEFAULT 0",
    NULL,
};

/* What a key may use in a month, at once and from where, its owner, and the secret before its
 * rotation; the tokens of each month (store/budget.h); journals of usage records
 * (store/usage_journal.h). */
static const char *const step_14[] = {
    "ALTER TABLE keys ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE keys ADD COLUMN label TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE keys ADD COLUMN addresses TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE keys ADD COLUMN tokens_per_month BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE keys ADD COLUMN tokens_per_month_soft BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE keys ADD COLUMN concurrent_requests BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE keys ADD COLUMN request_bytes BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE keys ADD COLUMN old_hash TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE keys ADD COLUMN old_until_ms BIGINT NOT NULL DEFAULT 0",
    "CREATE TABLE usage_months (month BIGINT NOT NULL, key_id TEXT NOT NULL, model TEXT NOT "
    "NULL, requests BIGINT NOT NULL, prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT "
    "NOT NULL, cached_tokens BIGINT NOT NULL, PRIMARY KEY (month, key_id, model))",
    "CREATE TABLE usage_journals (id TEXT PRIMARY KEY, written BIGINT NOT NULL)",
    NULL,
};

/* Name and address of who acted, and the changed members before and after (store/change.h). */
static const char *const step_15[] = {
    "ALTER TABLE audit ADD COLUMN actor_name TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE audit ADD COLUMN address TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE audit ADD COLUMN old_values TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE audit ADD COLUMN new_values TEXT NOT NULL DEFAULT ''",
    NULL,
};

/* What each router tells the others of itself (fleet/peers.h). */
static const char *const step_16[] = {
    "ALTER TABLE routers ADD COLUMN version TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE routers ADD COLUMN requests_per_minute BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE routers ADD COLUMN running BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE routers ADD COLUMN queued BIGINT NOT NULL DEFAULT 0",
    NULL,
};

/* Keys whose prompts and answers the request log keeps (relay/texts.h). */
static const char *const step_17[] = {
    "ALTER TABLE keys ADD COLUMN keep_texts BIGINT NOT NULL DEFAULT 0",
    NULL,
};

/* Each sign of life of a running response raises it (store/running.h); 0: the row is of a
 * release that did not. */
static const char *const step_18[] = {
    "ALTER TABLE responses ADD COLUMN beats BIGINT NOT NULL DEFAULT 0",
    NULL,
};

/* States of sign-ins with an OpenID provider that were used (store/sign_ins.h). */
static const char *const step_19[] = {
    "CREATE TABLE sign_ins (state TEXT PRIMARY KEY, until_ms BIGINT NOT NULL)",
    NULL,
};

/* How far the clock of a router is before the database's; NULL: of a release that does not say
 * so. */
static const char *const step_20[] = {
    "ALTER TABLE routers ADD COLUMN clock_ahead_ms BIGINT",
    NULL,
};

/* The dialect that an operator chose for a model; '': what its template shows. */
static const char *const step_21[] = {
    "ALTER TABLE models ADD COLUMN dialect TEXT NOT NULL DEFAULT ''",
    NULL,
};

/* From step 10 on: .is_additive = true wherever possible. */
static const struct router_schema_step steps[] = {
    {.statements = step_1},
    {.statements = step_2},
    {.statements = step_3},
    {.statements = step_4},
    {.statements = step_5},
    {.statements = step_6, .fn = hash_secrets},
    {.statements = step_7},
    {.statements = step_8},
    {.statements = step_9},
    {.statements = step_10, .is_additive = true},
    {.statements = step_11, .is_additive = true},
    {.statements = step_12, .fn = router_history_create, .is_additive = true},
    {.statements = step_13, .is_additive = true},
    {.statements = step_14, .fn = router_month_begin, .is_additive = true},
    {.statements = step_15, .is_additive = true},
    {.statements = step_16, .is_additive = true},
    {.statements = step_17, .is_additive = true},
    {.statements = step_18, .is_additive = true},
    {.statements = step_19, .is_additive = true},
    {.statements = step_20, .is_additive = true},
    {.statements = step_21, .is_additive = true},
};

struct secrets {
    struct lr_arena arena;
    struct secret {
        struct secret *next;
        const char *id;
        char text[sizeof(ROUTER_SECRET_MARK) + LR_SHA256_HEX_LEN];
    } * first;
};

static lr_code read_secret(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct secrets *all = ctx;
    char hash[LR_SHA256_HEX_LEN + 1];
    struct secret *one = lr_arena_zalloc(&all->arena, sizeof(*one));
    if (one == NULL || (one->id = lr_arena_copy(&all->arena, router_row_text(row, 0))) == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the secrets of nodes");
    router_secret_read(router_row_text(row, 1), hash);
    (void)snprintf(one->text, sizeof(one->text), ROUTER_SECRET_MARK "%s", hash);
    one->next = all->first;
    all->first = one;
    return LR_OK;
}

static lr_code hash_secrets(struct router_sql *sql, struct lr_error *err)
{
    struct secrets all = {0};
    lr_arena_init(&all.arena, 256 << 20);
    lr_code code =
        router_sql_run(sql, "SELECT id, secret FROM nodes", NULL, 0, read_secret, &all, err);
    for (const struct secret *one = all.first; code == LR_OK && one != NULL; one = one->next)
        code = ROUTER_SQL(sql, "UPDATE nodes SET secret = $2 WHERE id = $1", NULL, NULL, err,
                          ROUTER_Z(one->id), ROUTER_Z(one->text));
    lr_arena_free(&all.arena);
    return code;
}

/* The number of the last step is written in the step's own transaction. */
static lr_code note_step(struct router_sql *sql, bool is_additive, size_t number,
                         struct lr_error *err)
{
    lr_code code = router_sql_plain(
        sql, is_additive ? "DELETE FROM schema_additions" : "DELETE FROM schema_version", err);
    if (code != LR_OK)
        return code;
    return is_additive ? ROUTER_SQL(sql, "INSERT INTO schema_additions (number) VALUES ($1)",
                                    NULL, NULL, err, ROUTER_INT(number))
                       : ROUTER_SQL(sql, "INSERT INTO schema_version (number) VALUES ($1)",
                                    NULL, NULL, err, ROUTER_INT(number));
}

static lr_code run_step(struct router_sql *sql, const struct router_schema_step *step,
                        size_t number, struct lr_error *err)
{
    lr_code code = router_sql_plain(sql, sql->backend->begin, err);
    for (const char *const *text = step->statements; code == LR_OK && *text != NULL; text++) {
        code = router_sql_plain(sql, *text, err);
        LR_FAILPOINT("schema.statement");
    }
    if (code == LR_OK && step->fn != NULL)
        code = step->fn(sql, err);
    if (code == LR_OK)
        code = note_step(sql, step->is_additive, number, err);
    if (code == LR_OK)
        return router_sql_plain(sql, "COMMIT", err);
    lr_code ignored = router_sql_plain(sql, "ROLLBACK", NULL);
    (void)ignored; /* the first failure is the one to tell */
    return lr_fail_prefix(err, "bringing the database to version %zu", number);
}

lr_code router_schema_apply(struct router_sql *sql, const struct router_schema_step *all,
                            size_t count, struct lr_error *err)
{
    int64_t number = 0, additions = 0;
    lr_code code = router_sql_plain(
        sql, "CREATE TABLE IF NOT EXISTS schema_version (number BIGINT NOT NULL)", err);
    if (code == LR_OK)
        code = router_sql_plain(
            sql, "CREATE TABLE IF NOT EXISTS schema_additions (number BIGINT NOT NULL)", err);
    if (code == LR_OK)
        code = router_sql_run(sql, "SELECT number FROM schema_version", NULL, 0,
                              router_row_number, &number, err);
    if (code == LR_OK)
        code = router_sql_run(sql, "SELECT number FROM schema_additions", NULL, 0,
                              router_row_number, &additions, err);
    if (code == LR_OK && number > (int64_t)count)
        return lr_fail(err, LR_UNSUPPORTED,
                       "the database has version %lld and this program knows versions up to "
                       "%zu: use the release that wrote it, or a newer one",
                       (long long)number, count);
    for (size_t i = (size_t)(number > additions ? number : additions);
         code == LR_OK && i < count; i++)
        code = run_step(sql, &all[i], i + 1, err);
    return code;
}

lr_code router_schema_migrate(struct router_sql *sql, struct lr_error *err)
{
    lr_code code = router_schema_apply(sql, steps, sizeof(steps) / sizeof(steps[0]), err);
    return code == LR_OK ? router_history_widen(sql, err) : code;
}
