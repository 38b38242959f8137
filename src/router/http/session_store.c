#include "router/http/session_store.h"

#include <stdlib.h>

#include "router/http/state.h"
#include "router/store/clock.h"

enum {
    SAVE_MS = 60000,   /* between two writes of the same session's last use */
    EXPIRE_MS = 60000, /* between two deletions of rows of sessions that are over */
    FETCHES_MAX = 64,  /* at once: cookies that nobody has issued must not fill the queue */
    SAVES_MAX = 64,    /* in one transaction */
    CLOCKS_MS = 10 * 60000, /* the clocks of two routers may differ by this much */
};

/* ---- reading ---- */

static bool find_cookie(struct router *r, const struct net_request *req, struct lr_str *out)
{
    char name[32];
    struct lr_str header;
    return net_request_header(req, "Cookie", &header) &&
           router_cookie_find(header, router_cookie_name(r, name), out) &&
           out->len == ROUTER_SESSION_RANDOM;
}

bool router_session_is_unread(struct router *r, const struct net_request *req)
{
    struct lr_str value;
    if (!find_cookie(r, req, &value))
        return false;
    router_lock(r);
    const struct router_session *session =
        router_session_find(&r->sessions, value, lr_clock_wall_ms(&router_clock));
    bool is_unread = session == NULL && r->sessions.fetches < FETCHES_MAX;
    r->sessions.fetches += is_unread;
    router_unlock(r);
    return is_unread;
}

/* In the request's memory. */
struct fetching {
    struct router *router;
    struct router_session_row row;
    bool is_found;
    router_store_done fn;
    void *arg;
};

static lr_code fetch(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct fetching *f = arg;
    unsigned char hash[LR_SHA256_LEN];
    memcpy(hash, f->row.hash, sizeof(hash));
    return router_session_read(sql, hash, &f->row, &f->is_found, err);
}

static void fetched(void *arg, const struct lr_error *err)
{
    struct fetching *f = arg;
    struct router *r = f->router;
    router_lock(r);
    r->sessions.fetches--;
    if (err == NULL && f->is_found)
        (void)router_session_adopt(&r->sessions, &r->keys, &f->row,
                                   lr_clock_wall_ms(&router_clock));
    router_unlock(r);
    f->fn(f->arg, err);
}

void router_session_fetch(struct router *r, struct net_request *req, router_store_done fn,
                          void *arg)
{
    struct lr_str value;
    struct lr_error err;
    struct fetching *f = router_memory(req, sizeof(*f), &err);
    if (f == NULL || !find_cookie(r, req, &value)) {
        router_lock(r);
        r->sessions.fetches--;
        router_unlock(r);
        fn(arg, f == NULL ? &err : NULL);
        return;
    }
    *f = (struct fetching){.router = r, .fn = fn, .arg = arg};
    lr_sha256_of(value, f->row.hash);
    router_store_quietly(r->store, fetch, net_request_loop(req), fetched, f);
}

/* ---- beginning and ending ---- */

struct change {
    struct router *router;
    struct router_session_row row;
    enum router_session_state state; /* that the change settles */
    struct router_session replaced;
    router_store_done fn;
    void *arg;
};

static lr_code session_store_insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct change *c = arg;
    lr_code code = router_session_insert(sql, &c->row, err);
    if (code == LR_OK && c->replaced.state != ROUTER_SESSION_FREE)
        code = router_session_delete(sql, c->replaced.hash, err);
    return code;
}

static lr_code delete (struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_session_delete(sql, ((struct change *)arg)->row.hash, err);
}

static void session_store_changed(void *arg, const struct lr_error *err)
{
    struct change *c = arg;
    if (err == NULL) {
        router_lock(c->router);
        router_session_settle(&c->router->sessions, c->row.hash, c->state);
        router_unlock(c->router);
    }
    if (c->fn != NULL)
        c->fn(c->arg, err);
    free(c);
}

/* Aborts without memory, as net_alloc does: a session that is not written would be lost. */
static struct change *session_store_prepare(struct router *r,
                                            const struct router_session *session,
                                            router_store_done fn, void *arg)
{
    struct change *c = net_alloc(sizeof(*c));
    *c = (struct change){.router = r,
                         .row = router_session_describe(session),
                         .state = session->state,
                         .fn = fn,
                         .arg = arg};
    return c;
}

/* A session that begins or ends, for the audit log. */
static struct router_change session_store_compare(const struct router_session *session,
                                                  bool begins)
{
    struct router_change values = {0};
    const char *const members[][2] = {{"key", session->key->id},
                                      {"name", session->key->name},
                                      {"role", router_role_name(session->key->role)},
                                      {"from", session->from}};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        router_change_text(&values, members[i][0], begins ? NULL : members[i][1],
                           begins ? members[i][1] : NULL);
    return values;
}

void router_session_begin(struct router *r, struct net_request *req, struct router_key *key,
                          char value[ROUTER_SESSION_RANDOM + 1], struct router_caller *caller,
                          router_store_done fn, void *arg)
{
    const char *from = router_access(req)->from;
    struct router_session replaced;
    struct router_session *session = router_session_make(
        &r->sessions, key, from, lr_clock_wall_ms(&router_clock), value, &replaced);
    *caller = (struct router_caller){.key = key, .role = key->role, .session = session->id};
    LR_COPY(caller->name, lr_str_z(key->name));
    struct change *c = session_store_prepare(r, session, fn, arg);
    c->replaced = replaced;
    struct router_change values = session_store_compare(session, true);
    router_store_audit(r->store, &(struct router_action){
                                     "session.create",
                                     from,
                                     key->person[0] != '\0' ? router_role_name(key->role) : "",
                                     &values,
                                     {router_caller_name(caller), caller->name, from},
                                 });
    router_store_submit(r->store, session_store_insert, net_request_loop(req),
                        session_store_changed, c);
}

bool router_session_stop(struct router *r, uint64_t id, const struct router_actor *by,
                         struct net_loop *loop, router_store_done fn, void *arg)
{
    struct router_session *session =
        router_session_by_id(&r->sessions, id, lr_clock_wall_ms(&router_clock));
    if (session == NULL)
        return false;
    struct router_change values = session_store_compare(session, false);
    router_session_end(session);
    struct change *c = session_store_prepare(r, session, fn, arg);
    if (by != NULL)
        router_store_audit(r->store, &(struct router_action){"session.end", by->from,
                                                             c->row.key_id, &values, *by});
    router_store_submit(r->store, delete, loop, session_store_changed, c);
    return true;
}

/* ---- once a second ---- */

struct saving {
    struct router *router;
    struct router_session_row rows[SAVES_MAX];
    enum router_session_state states[SAVES_MAX];
    size_t count;
    bool expires;
};

static lr_code save(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct saving *s = arg;
    int64_t now = lr_clock_wall_ms(&router_clock) - CLOCKS_MS;
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < s->count; i++) {
        const struct router_session_row *row = &s->rows[i];
        if (s->states[i] == ROUTER_SESSION_NEW)
            code = router_session_insert(sql, row, err);
        else if (s->states[i] == ROUTER_SESSION_ENDED)
            code = router_session_delete(sql, row->hash, err);
        else
            code = router_session_touch(sql, row->hash, row->used_ms, err);
    }
    if (code == LR_OK && s->expires && router_clock_is_steady())
        code = router_session_expire(sql, now - (int64_t)s->router->sessions.life_ms,
                                     now - (int64_t)s->router->sessions.idle_ms, err);
    return code;
}

static void saved(void *arg, const struct lr_error *err)
{
    struct saving *s = arg;
    struct router *r = s->router;
    router_lock(r);
    r->sessions.is_saving = false;
    for (size_t i = 0; err == NULL && i < s->count; i++)
        router_session_settle(&r->sessions, s->rows[i].hash, s->states[i]);
    router_unlock(r);
    free(s);
}

/* Sessions whose first write is on its way are in state NEW for some milliseconds: a second
 * write of the same row does no harm. */
static bool must_save(const struct router_sessions *s, struct router_session *session)
{
    int64_t pause = s->idle_ms / 4 < SAVE_MS ? (int64_t)s->idle_ms / 4 : SAVE_MS;
    if (session->state == ROUTER_SESSION_FREE)
        return false;
    return session->state != ROUTER_SESSION_SAVED ||
           session->used_ms - session->saved_ms >= pause;
}

void router_sessions_second(struct router *r)
{
    struct saving *s = calloc(1, sizeof(*s));
    uint64_t now = lr_clock_ms(NULL);
    if (s == NULL)
        return; /* the next second */
    s->router = r;
    router_lock(r);
    s->expires = lr_elapsed(r->sessions.expired_ms, now) >= EXPIRE_MS;
    for (size_t i = 0;
         !r->sessions.is_saving && i < ROUTER_SESSIONS_MAX && s->count < SAVES_MAX; i++) {
        struct router_session *session = &r->sessions.all[i];
        if (!must_save(&r->sessions, session))
            continue;
        s->states[s->count] = session->state;
        s->rows[s->count++] = router_session_describe(session);
        session->saved_ms = session->used_ms;
    }
    bool has_work = !r->sessions.is_saving && (s->count != 0 || s->expires);
    r->sessions.is_saving |= has_work;
    if (has_work && s->expires)
        r->sessions.expired_ms = now;
    router_unlock(r);
    if (!has_work) {
        free(s);
        return;
    }
    router_store_quietly(r->store, save, r->loop_states[0].net, saved, s);
}
