/* router/http/api_session.c - signing in to the dashboard and out of it, whoami, and the list
 * of sessions.  Signing in with an OpenID provider is in api_oidc.c. */
#include <stdio.h>

#include "base/errors.h"
#include "net/guard.h"
#include "router/http/api.h"
#include "router/http/session_store.h"
#include "router/http/state.h"
#include "router/store/clock.h"

/* Secure where the browser speaks TLS, with us or with the server in front.  A client
 * that lies about the latter harms its own cookie only. */
static bool is_secure(const struct net_request *req)
{
    struct lr_str proto;
    return net_request_is_tls(req) || (net_request_header(req, "X-Forwarded-Proto", &proto) &&
                                       lr_str_eq_nocase(proto, LR_STR_LIT("https")));
}

void router_cookie_set(struct net_request *req, const struct router_cookie *cookie)
{
    char text[256];
    (void)snprintf(text, sizeof(text), "%s=%s; Path=%s; Max-Age=%llu; HttpOnly; SameSite=%s%s",
                   cookie->name, cookie->value, cookie->path,
                   (unsigned long long)(cookie->value[0] != '\0' ? cookie->life_s : 0),
                   cookie->same_site, is_secure(req) ? "; Secure" : "");
    net_response_header(req, "Set-Cookie", lr_str_z(text));
    net_response_header(req, "Cache-Control", LR_STR_LIT("no-store"));
}

void router_session_cookie(struct router *r, struct net_request *req, const char *value)
{
    char name[32];
    (void)router_cookie_name(r, name);
    router_cookie_set(req, &(struct router_cookie){.name = name,
                                                   .value = value,
                                                   .path = "/",
                                                   .same_site = "Strict",
                                                   .life_s = r->sessions.life_ms / 1000});
}

static lr_code answer_identity(struct router *r, struct net_request *req,
                               const struct router_caller *caller, const char *csrf)
{
    struct lr_json_writer *w = router_answer_begin(req);
    const char *id = caller->role == ROUTER_PUBLIC ? "" : router_caller_id(caller);
    router_access(req)->caller = *caller;
    router_lock(r); /* an admin may rename the key meanwhile */
    LR_JSON_MEMBERS(w, LR_TEXT("id", id),
                    LR_TEXT("name", caller->key != NULL ? caller->key->name : id));
    router_unlock(r);
    LR_JSON_MEMBERS(w, LR_TEXT("role", router_role_name(caller->role)),
                    LR_FLAG("needs_key", r->needs_key),
                    LR_FLAG("signed_in", caller->session != 0), LR_TEXT("csrf", csrf));
    if (router_oidc_is_on(&r->oidc)) {
        lr_json_member_object(w, "sign_in");
        LR_JSON_MEMBERS(w, LR_TEXT("name", r->oidc.config.title),
                        LR_TEXT("path", "/v0/oidc/start"));
        lr_json_end_object(w);
    }
    return router_answer(req, 200);
}

/* Answers callers that have not signed in, too: a page must know whether to ask for a key. */
lr_code router_api_whoami(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_caller caller;
    char csrf[LR_SHA256_HEX_LEN + 1] = "";
    lr_code code = router_identify(r, req, ROUTER_PUBLIC, &caller, err);
    if (code != LR_OK) {
        net_response_header(req, "WWW-Authenticate", LR_STR_LIT("Bearer"));
        return code;
    }
    struct lr_str header, cookie;
    char name[32];
    if (caller.session != 0 && net_request_header(req, "Cookie", &header) &&
        router_cookie_find(header, router_cookie_name(r, name), &cookie))
        router_session_csrf(cookie, csrf);
    net_response_header(req, "Cache-Control", LR_STR_LIT("no-store"));
    return answer_identity(r, req, &caller, csrf);
}

/* ---- signing in ---- */

/* Another site's form must not sign a browser in as somebody else. */
static lr_code check_form(const struct net_request *req, struct lr_error *err)
{
    struct lr_str value;
    if (!net_request_header(req, "Content-Type", &value) || !net_is_json_type(value))
        return lr_fail_plain(err, content_type_json);
    if (net_request_header(req, "Sec-Fetch-Site", &value) &&
        !lr_str_eq_z(value, "same-origin") && !lr_str_eq_z(value, "none"))
        return lr_fail_plain(err, session_other_page);
    return LR_OK;
}

static lr_code check_role(const struct router_key *key, struct lr_error *err)
{
    if (key->role != ROUTER_NODE && key->role != ROUTER_METRICS)
        return LR_OK;
    return lr_fail_as(err, session_role, key->id, router_role_name(key->role));
}

/* Looking the key up by its hash takes a time that tells nothing about the key. */
static lr_code check_key(struct router *r, struct net_request *req, struct lr_str text,
                         struct router_key **key, struct lr_error *err)
{
    uint32_t retry_s = 0;
    router_lock(r);
    lr_code code = router_keys_check(&r->keys, text, lr_clock_wall_ms(&router_clock), key, err);
    bool is_wrong = code == LR_UNAUTHENTICATED;
    if (code == LR_OK)
        code = check_role(*key, err);
    if (code == LR_OK)
        code = router_key_check_address(*key, router_access(req)->from, err);
    if (code == LR_OK)
        code = router_session_take(*key, lr_clock_ms(NULL), &retry_s, err);
    router_unlock(r);
    net_response_retry_after(req, retry_s);
    return is_wrong ? router_refuse_key(r, req, text, err) : code;
}

void router_session_end_before(struct router *r, const struct net_request *req)
{
    struct router_caller before;
    router_identify_session(r, req, &before);
    if (before.session == 0)
        return;
    router_lock(r);
    (void)router_session_stop(r, before.session, NULL, NULL, NULL, NULL);
    router_unlock(r);
}

/* In the request's memory. */
struct signing_in {
    struct net_request *req;
    struct router_caller caller;
    char value[ROUTER_SESSION_RANDOM + 1];
};

static void signed_in(void *arg, const struct lr_error *err)
{
    struct signing_in *s = arg;
    struct router *r = router_access(s->req)->router;
    char csrf[LR_SHA256_HEX_LEN + 1];
    (void)err; /* the session is written later, then */
    router_session_csrf(lr_str_z(s->value), csrf);
    router_session_cookie(r, s->req, s->value);
    lr_code ignored = answer_identity(r, s->req, &s->caller, csrf);
    (void)ignored; /* always OK */
}

lr_code router_api_sign_in(struct router *r, struct net_request *req, struct lr_error *err)
{
    const char *from = router_access(req)->from;
    struct router_key *key = NULL;
    const struct lr_json *body;
    struct lr_str text;
    struct signing_in *s = router_memory(req, sizeof(*s), err);
    lr_code code = s != NULL ? check_form(req, err) : LR_OUT_OF_RAM;
    if (code == LR_OK)
        code = router_body(req, &body, err);
    if (code == LR_OK && !lr_json_str(lr_json_get(body, "key"), &text))
        code = lr_fail_plain(err, session_key);
    if (code != LR_OK)
        return code;
    code = check_key(r, req, lr_str_trim(text), &key, err);
    if (code != LR_OK) {
        lr_log_warn(LR_LOG_OF(err), "session.refused from=%s reason=%s", from, err->text);
        return code;
    }
    router_session_end_before(r, req);
    s->req = req;
    router_lock(r);
    router_session_begin(r, req, key, s->value, &s->caller, signed_in, s);
    router_unlock(r);
    return LR_OK;
}

/* ---- signing out ---- */

static void signed_out(void *arg, const struct lr_error *err)
{
    struct net_request *req = arg;
    struct router *r = router_access(req)->router;
    const struct router_caller *caller = &router_access(req)->caller;
    char url[ROUTER_OIDC_URL];
    (void)err; /* this router forgets the session at once; its row is deleted later */
    router_session_cookie(r, req, "");
    struct lr_json_writer *w = router_answer_begin(req);
    lr_json_member_bool(w, "signed_out", true);
    if (caller->key != NULL && caller->key->person[0] != '\0' &&
        router_oidc_end_url(&r->oidc, router_oidc_base(r, req, (char[ROUTER_OIDC_URL]){0}),
                            url))
        lr_json_member_z(w, "redirect", url);
    lr_code ignored = router_answer(req, 200);
    (void)ignored; /* always OK */
}

lr_code router_api_sign_out(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct router_access *access = router_access(req);
    struct router_actor by = router_actor(req);
    (void)err;
    router_lock(r);
    bool is_ending = access->caller.session != 0 &&
                     router_session_stop(r, access->caller.session, &by, net_request_loop(req),
                                         signed_out, req);
    router_unlock(r);
    if (!is_ending)
        signed_out(req, NULL);
    return LR_OK;
}

/* ---- the list of sessions ---- */

/* A part of the hash: it names a session and says nothing about the cookie. */
enum { PUBLIC_ID = 4 + 16 + 1 };
static void public_id(const struct router_session *session, char out[PUBLIC_ID])
{
    char hex[LR_SHA256_HEX_LEN + 1];
    lr_sha256_hex(session->hash, hex);
    (void)snprintf(out, PUBLIC_ID, "ses-%.16s", hex);
}

static bool is_open(const struct router_session *session)
{
    return session->state == ROUTER_SESSION_NEW || session->state == ROUTER_SESSION_SAVED;
}

lr_code router_api_sessions(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_json_writer *w = router_answer_begin(req);
    char id[PUBLIC_ID];
    (void)err;
    lr_json_member_array(w, "sessions");
    router_lock(r);
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++) {
        const struct router_session *s = &r->sessions.all[i];
        if (!is_open(s))
            continue;
        public_id(s, id);
        LR_JSON_ITEM(
            w, LR_TEXT("id", id), LR_TEXT("key", s->key->id), LR_TEXT("name", s->key->name),
            LR_TEXT("role", router_role_name(s->key->role)),
            LR_FLAG("person", s->key->person[0] != '\0'), LR_TEXT("from", s->from),
            LR_INT("created", s->made_ms / 1000), LR_INT("last_used", s->used_ms / 1000),
            LR_FLAG("own", s->id == router_access(req)->caller.session));
    }
    router_unlock(r);
    lr_json_end_array(w);
    return router_answer(req, 200);
}

static void session_ended(void *arg, const struct lr_error *err)
{
    struct net_request *req = arg;
    if (err != NULL)
        router_answer_error(req, err);
    else
        net_respond(req, 200, "application/json", LR_STR_LIT("{\"ended\":true}"));
}

lr_code router_api_session_end(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct router_access *access = router_access(req);
    struct router_actor by = router_actor(req);
    char id[PUBLIC_ID];
    bool is_ending = false;
    router_lock(r);
    for (size_t i = 0; !is_ending && i < ROUTER_SESSIONS_MAX; i++) {
        const struct router_session *s = &r->sessions.all[i];
        if (!is_open(s))
            continue;
        public_id(s, id);
        if (lr_str_eq_z(access->match.tail, id))
            is_ending =
                router_session_stop(r, s->id, &by, net_request_loop(req), session_ended, req);
    }
    router_unlock(r);
    return is_ending ? LR_OK : lr_fail_as(err, absent_session, access->match.tail);
}
