/* router/http/api_session.c - signing in to the dashboard and out of it, and whoami. */
#include <stdio.h>

#include "net/guard.h"
#include "router/http/api.h"
#include "router/state.h"

/* Secure where the browser speaks TLS, with us or with the server in front.  A client
 * that lies about the latter harms its own cookie only. */
static bool is_secure(const struct net_request *req)
{
    struct lr_str proto;
    return net_request_is_tls(req) || (net_request_header(req, "X-Forwarded-Proto", &proto) &&
                                       lr_str_eq_nocase(proto, LR_STR_LIT("https")));
}

/* An empty value takes the cookie back. */
static void set_cookie(struct router *r, struct net_request *req, const char *value)
{
    char name[32], text[256];
    struct lr_str cookie = router_cookie_name(r->address.port, name);
    uint64_t life_s = value[0] != '\0' ? r->sessions.life_ms / 1000 : 0;
    (void)snprintf(text, sizeof(text),
                   LR_STR_FMT "=%s; Path=/; Max-Age=%llu; HttpOnly; SameSite=Strict%s",
                   LR_STR_ARG(cookie), value, (unsigned long long)life_s,
                   is_secure(req) ? "; Secure" : "");
    net_response_header(req, "Set-Cookie", lr_str_z(text));
    net_response_header(req, "Cache-Control", LR_STR_LIT("no-store"));
}

static lr_code answer_identity(struct router *r, struct net_request *req,
                               const struct router_caller *caller, const char *csrf)
{
    struct lr_json_writer *w = router_answer_begin(req);
    const char *id = caller->role == ROUTER_PUBLIC ? "" : router_caller_name(caller);
    router_access(req)->caller = *caller;
    router_lock(r); /* an admin may rename the key meanwhile */
    LR_JSON_MEMBERS(w, LR_TEXT("id", id),
                    LR_TEXT("name", caller->key != NULL ? caller->key->name : id));
    router_unlock(r);
    LR_JSON_MEMBERS(w, LR_TEXT("role", router_role_name(caller->role)),
                    LR_FLAG("needs_key", r->needs_key),
                    LR_FLAG("signed_in", caller->session != 0), LR_TEXT("csrf", csrf));
    return router_answer(req, 200);
}

/* Answers callers that have not signed in, too: a page must know whether to ask for a key. */
lr_code router_api_whoami(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_caller caller;
    char csrf[ROUTER_SESSION_RANDOM + 1] = "";
    lr_code code = router_identify(r, req, ROUTER_PUBLIC, &caller, err);
    if (code != LR_OK) {
        net_response_header(req, "WWW-Authenticate", LR_STR_LIT("Bearer"));
        return code;
    }
    router_lock(r);
    const struct router_session *session =
        caller.session != 0 ? router_session_by_id(&r->sessions, caller.session,
                                                   lr_clock_ms(NULL), lr_clock_wall_ms(NULL))
                            : NULL;
    if (session != NULL)
        memcpy(csrf, session->csrf, sizeof(csrf));
    router_unlock(r);
    net_response_header(req, "Cache-Control", LR_STR_LIT("no-store"));
    return answer_identity(r, req, &caller, csrf);
}

/* ---- signing in ---- */

/* Another site's form must not sign a browser in as somebody else. */
static lr_code check_form(const struct net_request *req, struct lr_error *err)
{
    struct lr_str value;
    if (!net_request_header(req, "Content-Type", &value) || !net_is_json_type(value))
        return lr_fail(err, LR_UNSUPPORTED_MEDIA, "Content-Type must be application/json");
    if (net_request_header(req, "Sec-Fetch-Site", &value) &&
        !lr_str_eq_z(value, "same-origin") && !lr_str_eq_z(value, "none"))
        return lr_fail(err, LR_PERMISSION_DENIED, "another web page cannot sign you in");
    return LR_OK;
}

/* Looking the key up by its hash takes a time that tells nothing about the key. */
static lr_code sign_in(struct router *r, const char *address, struct lr_str text,
                       struct router_caller *out, char value[ROUTER_SESSION_RANDOM + 1],
                       char csrf[ROUTER_SESSION_RANDOM + 1], uint32_t *retry_s,
                       struct lr_error *err)
{
    uint64_t now = lr_clock_ms(NULL);
    lr_code code = router_guess_check(&r->sessions, address, now, retry_s, err);
    if (code != LR_OK)
        return code;
    code = router_keys_check(&r->keys, text, lr_clock_wall_ms(NULL), &out->key, err);
    if (code == LR_OK && out->key->role != ROUTER_ADMIN && out->key->role != ROUTER_API)
        code = lr_fail(err, LR_PERMISSION_DENIED,
                       "%s is a key of role %s: sign in with one of role admin or api",
                       out->key->id, router_role_name(out->key->role));
    if (code == LR_UNAUTHENTICATED)
        router_guess_count(&r->sessions, address, now);
    if (code != LR_OK)
        return code;
    const struct router_session *session =
        router_session_make(&r->sessions, out->key, now, value);
    out->role = out->key->role;
    out->session = session->id;
    memcpy(csrf, session->csrf, sizeof(session->csrf));
    return LR_OK;
}

/* A browser that signs in again leaves no session behind. */
static void end_session_before(struct router *r, const struct net_request *req)
{
    struct router_caller before;
    if (router_identify(r, req, ROUTER_PUBLIC, &before, NULL) != LR_OK || before.session == 0)
        return;
    router_lock(r);
    router_session_end(&r->sessions, before.session);
    router_unlock(r);
}

lr_code router_api_sign_in(struct router *r, struct net_request *req, struct lr_error *err)
{
    const char *from = router_access(req)->from;
    struct router_caller caller = {0};
    char value[ROUTER_SESSION_RANDOM + 1], csrf[ROUTER_SESSION_RANDOM + 1];
    uint32_t retry_s = 0;
    const struct lr_json *body;
    struct lr_str text;
    lr_code code = check_form(req, err);
    if (code == LR_OK)
        code = router_body(req, &body, err);
    if (code == LR_OK && !lr_json_str(lr_json_get(body, "key"), &text))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "\"key\" must be a string: lr-...");
    if (code != LR_OK)
        return code;
    router_lock(r);
    code = sign_in(r, from, lr_str_trim(text), &caller, value, csrf, &retry_s, err);
    router_unlock(r);
    if (code != LR_OK) {
        lr_log_warn(NULL, "session.refused from=%s reason=%s", from, err->text);
        net_response_retry_after(req, retry_s);
        return code;
    }
    end_session_before(r, req);
    router_store_audit(r->store, caller.key->id, "session.create", from, "");
    set_cookie(r, req, value);
    return answer_identity(r, req, &caller, csrf);
}

lr_code router_api_sign_out(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct router_access *access = router_access(req);
    (void)err;
    if (access->caller.session != 0) {
        router_lock(r);
        router_session_end(&r->sessions, access->caller.session);
        router_unlock(r);
        router_store_audit(r->store, access->caller.key->id, "session.end", access->from, "");
    }
    set_cookie(r, req, "");
    return router_answer_text(req, LR_STR_LIT("{\"signed_out\":true}"));
}
