#include "router/http/session.h"

#include <stdio.h>

#include "base/os/socket.h"
#include "base/random.h"

void router_sessions_init(struct router_sessions *s, uint64_t idle_ms, uint64_t life_ms)
{
    *s = (struct router_sessions){.idle_ms = idle_ms, .life_ms = life_ms, .next_id = 1};
}

static void clear(struct router_session *session)
{
    *session = (struct router_session){0};
}

static bool has_ended(const struct router_sessions *s, const struct router_session *session,
                      uint64_t now_ms, int64_t wall_ms)
{
    return now_ms - session->used_ms >= s->idle_ms || now_ms - session->made_ms >= s->life_ms ||
           !router_key_is_good(session->key, wall_ms);
}

/* A free place, else the one that was used longest ago. */
static struct router_session *make_room(struct router_sessions *s, enum router_role role)
{
    struct router_session *all = &s->all[role == ROUTER_ADMIN ? 0 : ROUTER_SESSIONS_EACH];
    struct router_session *oldest = &all[0];
    for (size_t i = 0; i < ROUTER_SESSIONS_EACH; i++) {
        if (all[i].key == NULL)
            return &all[i];
        if (all[i].used_ms < oldest->used_ms)
            oldest = &all[i];
    }
    return oldest;
}

struct router_session *router_session_make(struct router_sessions *s, struct router_key *key,
                                           uint64_t now_ms,
                                           char value[ROUTER_SESSION_RANDOM + 1])
{
    struct router_session *session = make_room(s, key->role);
    clear(session);
    lr_random_base62(value, ROUTER_SESSION_RANDOM);
    lr_random_base62(session->csrf, ROUTER_SESSION_RANDOM);
    lr_sha256_of(lr_str_z(value), session->hash);
    session->id = s->next_id++;
    session->key = key;
    session->made_ms = session->used_ms = now_ms;
    return session;
}

static struct router_session *use(struct router_sessions *s, struct router_session *session,
                                  uint64_t now_ms, int64_t wall_ms)
{
    if (has_ended(s, session, now_ms, wall_ms)) {
        clear(session);
        return NULL;
    }
    session->used_ms = now_ms;
    return session;
}

struct router_session *router_session_find(struct router_sessions *s, struct lr_str value,
                                           uint64_t now_ms, int64_t wall_ms)
{
    unsigned char hash[LR_SHA256_LEN];
    if (value.len != ROUTER_SESSION_RANDOM)
        return NULL;
    lr_sha256_of(value, hash);
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++)
        if (s->all[i].key != NULL &&
            lr_str_eq_secret(lr_str((const char *)hash, sizeof(hash)),
                             lr_str((const char *)s->all[i].hash, sizeof(hash))))
            return use(s, &s->all[i], now_ms, wall_ms);
    return NULL;
}

struct router_session *router_session_by_id(struct router_sessions *s, uint64_t id,
                                            uint64_t now_ms, int64_t wall_ms)
{
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++)
        if (s->all[i].key != NULL && s->all[i].id == id)
            return use(s, &s->all[i], now_ms, wall_ms);
    return NULL;
}

void router_session_end(struct router_sessions *s, uint64_t id)
{
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++)
        if (s->all[i].id == id)
            clear(&s->all[i]);
}

/* ---- guessing ---- */

static void network_of(const char *address, char out[48])
{
    struct in6_addr v6;
    (void)snprintf(out, 48, "%s", address);
    if (inet_pton(AF_INET6, address, &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6))
        return;
    memset(&v6.s6_addr[8], 0, 8);
    (void)inet_ntop(AF_INET6, &v6, out, 48);
}

static struct router_guesser *find_guesser(struct router_sessions *s, const char *address)
{
    char network[48];
    network_of(address, network);
    for (size_t i = 0; i < ROUTER_GUESSERS_MAX; i++)
        if (strcmp(s->guessers[i].network, network) == 0)
            return &s->guessers[i];
    return NULL;
}

lr_code router_guess_check(struct router_sessions *s, const char *address, uint64_t now_ms,
                           uint32_t *retry_s, struct lr_error *err)
{
    struct router_guesser *g = find_guesser(s, address);
    double level =
        g != NULL ? router_bucket_refill(&g->left, ROUTER_GUESSES_PER_MINUTE, now_ms) : 1;
    *retry_s = 0;
    if (level >= 1)
        return LR_OK;
    *retry_s = (uint32_t)((1 - level) * 60 / ROUTER_GUESSES_PER_MINUTE) + 1;
    return lr_fail(err, LR_RATE_LIMITED,
                   "%d wrong keys a minute came from %s: wait %u s and try again",
                   ROUTER_GUESSES_PER_MINUTE, address, *retry_s);
}

void router_guess_count(struct router_sessions *s, const char *address, uint64_t now_ms)
{
    struct router_guesser *g = find_guesser(s, address);
    if (g == NULL) {
        g = &s->guessers[0];
        for (size_t i = 1; i < ROUTER_GUESSERS_MAX; i++)
            if (s->guessers[i].left.at_ms < g->left.at_ms)
                g = &s->guessers[i];
        network_of(address, g->network);
        g->left = (struct router_bucket){0};
    }
    (void)router_bucket_refill(&g->left, ROUTER_GUESSES_PER_MINUTE, now_ms);
    g->left.level -= 1;
}

/* ---- cookies ---- */

bool router_cookie_find(struct lr_str header, struct lr_str name, struct lr_str *out)
{
    struct lr_str part;
    *out = (struct lr_str){0};
    while (lr_str_split(&header, ';', &part)) {
        size_t equals = lr_str_find_char(part, '=');
        if (equals != LR_STR_NONE &&
            lr_str_eq(lr_str_trim(lr_str_sub(part, 0, equals)), name)) {
            *out = lr_str_trim(lr_str_sub(part, equals + 1, part.len));
            return true;
        }
    }
    return false;
}
