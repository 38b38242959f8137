#include "router/access/session.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/machine.h"
#include "base/random.h"

/* Numbers of people for the scheduler; those of keys count from 1. */
#define FIRST_PERSON (1ULL << 40)

#define TO(name) LR_STATE(ROUTER_SESSION_##name)
static const struct lr_machine machine = {
    "session",
    {
        [ROUTER_SESSION_FREE] = {"free", TO(NEW) | TO(SAVED)},
        [ROUTER_SESSION_NEW] = {"new", TO(SAVED) | TO(ENDED) | TO(FREE)},
        [ROUTER_SESSION_SAVED] = {"saved", TO(ENDED) | TO(FREE)},
        [ROUTER_SESSION_ENDED] = {"ended", TO(FREE)},
    },
};

static void session_move(struct router_session *session, enum router_session_state state)
{
    if (!lr_machine_allows(&machine, "session", session->state, state))
        state = ROUTER_SESSION_FREE;
    session->state = state;
    if (state == ROUTER_SESSION_FREE)
        *session = (struct router_session){0};
}

void router_sessions_init(struct router_sessions *s, uint64_t idle_ms, uint64_t life_ms)
{
    *s = (struct router_sessions){.idle_ms = idle_ms, .life_ms = life_ms, .next_id = 1};
}

void router_sessions_free(struct router_sessions *s)
{
    for (size_t i = 0; i < s->person_count; i++)
        free(s->people[i]);
    free(s->people);
}

/* ---- people ---- */

static struct router_key *find_person(const struct router_sessions *s, const char *id)
{
    for (size_t i = 0; i < s->person_count; i++)
        if (strcmp(s->people[i]->id, id) == 0)
            return s->people[i];
    return NULL;
}

static struct router_key *know_person(struct router_sessions *s, const char *id,
                                      struct lr_str name, enum router_role role)
{
    struct router_key *person = find_person(s, id);
    if (person == NULL && s->person_count == s->person_capacity) {
        size_t capacity = s->person_capacity != 0 ? 2 * s->person_capacity : 16;
        struct router_key **grown = realloc(s->people, capacity * sizeof(struct router_key *));
        if (grown == NULL)
            return NULL;
        s->people = grown;
        s->person_capacity = capacity;
    }
    if (person == NULL) {
        person = calloc(1, sizeof(*person));
        if (person == NULL)
            return NULL;
        (void)snprintf(person->id, sizeof(person->id), "%s", id);
        person->number = FIRST_PERSON + s->person_count;
        s->people[s->person_count++] = person;
    }
    LR_COPY(person->name, name);
    (void)snprintf(person->person, sizeof(person->person), "%s (%s)", person->name, id);
    person->role = role;
    return person;
}

struct router_key *router_session_person(struct router_sessions *s, struct lr_str subject,
                                         struct lr_str name, enum router_role role)
{
    unsigned char hash[LR_SHA256_LEN];
    char hex[LR_SHA256_HEX_LEN + 1], id[24];
    lr_sha256_of(subject, hash);
    lr_sha256_hex(hash, hex);
    (void)snprintf(id, sizeof(id), "user-%.16s", hex);
    return know_person(s, id, name, role);
}

/* ---- sessions ---- */

static uint64_t since(int64_t from_ms, int64_t now_ms)
{
    return now_ms > from_ms ? (uint64_t)(now_ms - from_ms) : 0;
}

static bool is_live(const struct router_session *session)
{
    return session->state == ROUTER_SESSION_NEW || session->state == ROUTER_SESSION_SAVED;
}

static bool has_ended(const struct router_sessions *s, const struct router_session *session,
                      int64_t now_ms)
{
    return since(session->used_ms, now_ms) >= s->idle_ms ||
           since(session->made_ms, now_ms) >= s->life_ms ||
           !router_key_is_good(session->key, now_ms);
}

/* The table of the key's role. */
static struct router_session *table_of(struct router_sessions *s, const struct router_key *key)
{
    return &s->all[key->role == ROUTER_ADMIN ? 0 : ROUTER_SESSIONS_EACH];
}

static size_t count_of(const struct router_session *table, const struct router_key *key)
{
    size_t count = 0;
    for (size_t i = 0; i < ROUTER_SESSIONS_EACH; i++)
        count += table[i].key == key;
    return count;
}

static struct router_session *oldest_of(struct router_session *table,
                                        const struct router_key *key)
{
    struct router_session *oldest = NULL;
    for (size_t i = 0; i < ROUTER_SESSIONS_EACH; i++)
        if (table[i].key == key && (oldest == NULL || table[i].used_ms < oldest->used_ms))
            oldest = &table[i];
    return oldest;
}

/* The key with the most sessions.  The table is full. */
static const struct router_key *greediest(const struct router_session *table)
{
    const struct router_key *most = table[0].key;
    for (size_t i = 1; i < ROUTER_SESSIONS_EACH; i++)
        if (table[i].key != most && count_of(table, table[i].key) > count_of(table, most))
            most = table[i].key;
    return most;
}

/* The place of a new session of this key; the session that has the place makes room. */
static struct router_session *session_make_room(struct router_sessions *s,
                                                const struct router_key *key)
{
    struct router_session *table = table_of(s, key);
    if (count_of(table, key) >= ROUTER_SESSIONS_OF_KEY)
        return oldest_of(table, key);
    for (size_t i = 0; i < ROUTER_SESSIONS_EACH; i++)
        if (table[i].state == ROUTER_SESSION_FREE)
            return &table[i];
    return oldest_of(table, greediest(table));
}

lr_code router_session_take(struct router_key *key, uint64_t now_ms, uint32_t *retry_s,
                            struct lr_error *err)
{
    double level = lr_bucket_refill(&key->sign_ins, ROUTER_SIGN_INS_PER_MINUTE, now_ms);
    *retry_s = 0;
    if (level >= 1) {
        key->sign_ins.level -= 1;
        return LR_OK;
    }
    *retry_s = (uint32_t)((1 - level) * 60 / ROUTER_SIGN_INS_PER_MINUTE) + 1;
    return lr_fail_as(err, sign_ins_many, key->id, ROUTER_SIGN_INS_PER_MINUTE, *retry_s);
}

struct router_session *router_session_make(struct router_sessions *s, struct router_key *key,
                                           const char *from, int64_t now_ms,
                                           char value[ROUTER_SESSION_RANDOM + 1],
                                           struct router_session *replaced)
{
    struct router_session *session = session_make_room(s, key);
    *replaced = *session;
    if (session->state != ROUTER_SESSION_FREE)
        session_move(session, ROUTER_SESSION_FREE);
    session_move(session, ROUTER_SESSION_NEW);
    lr_random_base62(value, ROUTER_SESSION_RANDOM);
    lr_sha256_of(lr_str_z(value), session->hash);
    session->id = s->next_id++;
    session->key = key;
    LR_COPY(session->from, lr_str_z(from));
    session->made_ms = session->used_ms = session->saved_ms = now_ms;
    return session;
}

/* A session that has ended here may live elsewhere: another router may know of later use. */
static struct router_session *use(struct router_sessions *s, struct router_session *session,
                                  int64_t now_ms)
{
    if (has_ended(s, session, now_ms)) {
        session_move(session, ROUTER_SESSION_FREE);
        return NULL;
    }
    if (now_ms > session->used_ms)
        session->used_ms = now_ms;
    return session;
}

static struct router_session *session_find(struct router_sessions *s,
                                           const unsigned char hash[LR_SHA256_LEN])
{
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++)
        if (s->all[i].state != ROUTER_SESSION_FREE &&
            lr_str_eq_secret(lr_str((const char *)hash, LR_SHA256_LEN),
                             lr_str((const char *)s->all[i].hash, LR_SHA256_LEN)))
            return &s->all[i];
    return NULL;
}

struct router_session *router_session_find(struct router_sessions *s, struct lr_str value,
                                           int64_t now_ms)
{
    unsigned char hash[LR_SHA256_LEN];
    if (value.len != ROUTER_SESSION_RANDOM)
        return NULL;
    lr_sha256_of(value, hash);
    struct router_session *session = session_find(s, hash);
    return session != NULL && is_live(session) ? use(s, session, now_ms) : NULL;
}

struct router_session *router_session_by_id(struct router_sessions *s, uint64_t id,
                                            int64_t now_ms)
{
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++)
        if (is_live(&s->all[i]) && s->all[i].id == id)
            return use(s, &s->all[i], now_ms);
    return NULL;
}

void router_session_end(struct router_session *session)
{
    session_move(session, ROUTER_SESSION_ENDED);
}

void router_session_settle(struct router_sessions *s, const unsigned char hash[LR_SHA256_LEN],
                           enum router_session_state state)
{
    struct router_session *session = session_find(s, hash);
    if (session == NULL || session->state != state)
        return;
    if (state == ROUTER_SESSION_NEW)
        session_move(session, ROUTER_SESSION_SAVED);
    else if (state == ROUTER_SESSION_ENDED)
        session_move(session, ROUTER_SESSION_FREE);
}

void router_session_csrf(struct lr_str value, char out[LR_SHA256_HEX_LEN + 1])
{
    unsigned char digest[LR_SHA256_LEN];
    const struct lr_str use_of_it = LR_STR_LIT("csrf");
    lr_hmac_sha256(value, &use_of_it, 1, digest);
    lr_sha256_hex(digest, out);
}

/* ---- sessions of the database ---- */

struct router_session_row router_session_describe(const struct router_session *session)
{
    struct router_session_row row = {
        .role = session->key->role, .made_ms = session->made_ms, .used_ms = session->used_ms};
    memcpy(row.hash, session->hash, sizeof(row.hash));
    LR_COPY(row.key_id, lr_str_z(session->key->id));
    LR_COPY(row.from, lr_str_z(session->from));
    if (session->key->person[0] != '\0')
        LR_COPY(row.name, lr_str_z(session->key->name));
    return row;
}

static bool session_add(struct router_sessions *s, const struct router_keys *keys,
                        const struct router_session_row *row, int64_t now_ms)
{
    struct router_session session = {
        .made_ms = row->made_ms,
        .used_ms = row->used_ms,
        .saved_ms = row->used_ms,
        .key = row->name[0] != '\0'
                   ? know_person(s, row->key_id, lr_str_z(row->name), row->role)
                   : router_keys_find(keys, lr_str_z(row->key_id)),
    };
    if (session.key == NULL || has_ended(s, &session, now_ms))
        return false;
    struct router_session *place = session_make_room(s, session.key);
    if (place->state != ROUTER_SESSION_FREE) {
        if (place->used_ms > session.used_ms)
            return false;
        session_move(place, ROUTER_SESSION_FREE);
    }
    memcpy(session.hash, row->hash, sizeof(session.hash));
    LR_COPY(session.from, lr_str_z(row->from));
    session.id = s->next_id++;
    *place = session;
    session_move(place, ROUTER_SESSION_SAVED);
    return true;
}

bool router_session_adopt(struct router_sessions *s, const struct router_keys *keys,
                          const struct router_session_row *row, int64_t now_ms)
{
    const struct router_session *known = session_find(s, row->hash);
    return known != NULL ? is_live(known) : session_add(s, keys, row, now_ms);
}

lr_code router_sessions_read(struct router_sql *sql, struct router_session_row *rows,
                             struct lr_strmap *map, struct lr_error *err)
{
    size_t count = 0;
    lr_code code = router_session_read_all(sql, rows, ROUTER_SESSIONS_MAX, &count, err);
    for (size_t i = 0; code == LR_OK && i < count; i++)
        if (!lr_strmap_put(map, lr_str((const char *)rows[i].hash, sizeof(rows[i].hash)),
                           &rows[i], NULL))
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for sessions");
    return code;
}

void router_sessions_merge(struct router_sessions *s, const struct router_keys *keys,
                           const struct lr_strmap *map, int64_t now_ms)
{
    struct router_session *known[ROUTER_SESSIONS_MAX] = {NULL}; /* of each row */
    const struct router_session_row *rows = NULL;
    struct lr_str key;
    void *value;
    /* The rows are one array, and the map has them in their order. */
    if (lr_strmap_at(map, 0, &key, &value))
        rows = value;
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++) {
        struct router_session *session = &s->all[i];
        struct lr_str hash = {(const char *)session->hash, sizeof(session->hash)};
        const struct router_session_row *row =
            session->state != ROUTER_SESSION_FREE ? lr_strmap_get(map, hash) : NULL;
        if (row == NULL && session->state == ROUTER_SESSION_SAVED)
            session_move(session, ROUTER_SESSION_FREE);
        if (row == NULL)
            continue;
        known[row - rows] = session;
        if (row->used_ms > session->used_ms)
            session->used_ms = row->used_ms;
        if (row->used_ms > session->saved_ms)
            session->saved_ms = row->used_ms;
    }
    for (size_t i = 0; i < map->count && i < ROUTER_SESSIONS_MAX; i++)
        if (known[i] == NULL)
            (void)session_add(s, keys, &rows[i], now_ms);
        else if (rows[i].name[0] != '\0') /* the newest sign-in comes last */
            known[i]->key->role = rows[i].role;
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
