/* router/http/api.h - the router's HTTP API: one table of routes, a role each, a handler each.
 *
 *   api.c                     a request from its head to its line in the log
 *   routes.c                  the table
 *   auth.c, session.c, cors.c, tries.c  whether a request may
 *   api_*.c, dashboard.c      the handlers; those that generate are in relay/call.c
 *   probes.c                  health, /livez, /readyz
 *   metrics.c, stats.c        counters, and the last quarter of an hour
 *   history.c                 what this process adds to the history of seven days
 *   key_usage.c               counters by key and model
 *   limits.c                  what a key may still use: headers and alerts
 *   records.c, prices.c       usage and audit records as files, and what tokens cost
 *
 * Thread: the request's loop.
 */
#ifndef ROUTER_HTTP_API_H
#define ROUTER_HTTP_API_H

#include "base/json.h"
#include "base/settings.h"
#include "net/cidr.h"
#include "net/json.h"
#include "net/routes.h"
#include "router/relay/request.h"
#include "router/store/store.h"

struct hub_supported;
struct router;
struct router_node;

/* LR_OK: the request is answered, or will be.  Else *err is the answer. */
typedef lr_code router_api_fn(struct router *r, struct net_request *req, struct lr_error *err);

struct router_route {
    struct net_route at;
    enum router_role role;
    router_api_fn *fn;
    bool is_for_pages; /* also of other origins that the setting cors-origin lists */
};

extern const struct net_routes router_routes; /* rows: struct router_route */

/* ---- answers ---- */

/* An object: its members follow through the writer, then router_answer closes and sends it. */
struct lr_json_writer *router_answer_begin(struct net_request *req);
lr_code router_answer(struct net_request *req, int status);
/* JSON that is written already. */
lr_code router_answer_text(struct net_request *req, struct lr_str json);
/* The request's memory, all zero.  NULL: err says so. */
void *router_memory(struct net_request *req, size_t size, struct lr_error *err);
/* ?name=true */
bool router_wants(struct net_request *req, const char *name);
/* The body as an object. */
LR_MUST_USE lr_code router_body(struct net_request *req, const struct lr_json **out,
                                struct lr_error *err);
/* absent.c: *err of a path without a route becomes a sentence where another server has one.
 * Returns its code. */
lr_code router_explain_absent(struct lr_str path, struct lr_error *err);
/* An error outside of a turn, in the form of the API that the client speaks. */
void router_answer_error(struct net_request *req, const struct lr_error *err);

/* What the database does for a request: fn in a transaction, then done on the request's loop,
 * which answers (NULL: fn has written the answer).  Where either fails, its error is the
 * answer.  With an action it is a change of the caller's, and its line in the audit log is in
 * the same transaction; `by` is filled in.  Without one the other routers are not told.
 * arg is in the request's memory. */
typedef lr_code (*router_api_done)(struct net_request *req, void *arg, struct lr_error *err);
lr_code router_act(struct net_request *req, const struct router_action *action,
                   router_store_fn fn, router_api_done done, void *arg, struct lr_error *err);

/* api_register.c: the list of the setting supported-models, or the built-in one.  Its texts lie
 * in the arena.  UNAVAILABLE names the setting and the mistake in the file. */
LR_MUST_USE lr_code router_read_supported(const struct lr_settings *s, struct lr_arena *arena,
                                          struct hub_supported **out, struct lr_error *err);

/* api_register.c: an array of names; *out has them with a space between two, in the arena.
 * INVALID_ARGUMENT: no list of different names. */
LR_MUST_USE lr_code router_read_aliases(struct lr_arena *arena, const struct lr_json *v,
                                        struct lr_str *out, struct lr_error *err);

/* api_register.c: registers a model as POST /v0/models/register with this body does.  told(arg)
 * is called once, perhaps before this returns, and never where this fails; the request waits
 * for it.  NULL: the request is answered.  id: of the model, borrowed for the call; err: why it
 * is not registered. */
typedef void router_registered_fn(void *arg, const char *id, const struct lr_error *err);
LR_MUST_USE lr_code router_begin_registration(struct router *r, struct net_request *req,
                                              const struct lr_json *body,
                                              router_registered_fn *told, void *arg,
                                              struct lr_error *err);
/* api_keys.c: texts by spaces, as an array member; nothing where there are none. */
void router_put_words(struct lr_json_writer *w, const char *name, const char *words);
/* api_ollama.c: the model that the body of one of Ollama's clients names. */
LR_MUST_USE lr_code router_named_model(const struct lr_json *body, struct lr_str *out,
                                       struct lr_error *err);

/* cors.c: pages of other origins.  check is for the start; the others are for on_head. */
LR_MUST_USE lr_code router_cors_check(const struct lr_settings *s, bool needs_key,
                                      struct lr_error *err);
bool router_cors_trusts(const struct lr_settings *s, const struct net_request *req,
                        const struct router_route *route);
void router_cors_answer(const struct lr_settings *s, struct net_request *req,
                        const struct router_route *route);
void router_cors_preflight(const struct lr_settings *s, struct net_request *req,
                           const struct router_route *route, struct lr_str methods);

/* For net_server_config.handler. */
void router_api_head(void *arg, struct net_request *req);
void router_api_request(void *arg, struct net_request *req);
void router_api_end(void *arg, const struct net_request *req);

/* Finds the caller, and checks that it may (auth.c).  UNAUTHENTICATED or PERMISSION_DENIED. */
LR_MUST_USE lr_code router_authenticate(struct router *r, struct net_request *req,
                                        const struct router_route *route,
                                        struct router_caller *out, struct lr_error *err);
/* Finds the caller, whatever the route; role PUBLIC: it is not known, and a key is needed.
 * UNAUTHENTICATED only for a key that was sent and is no good, RATE_LIMITED for one of too many
 * from its address; a key that was never issued
 * counts as none where none is required. */
LR_MUST_USE lr_code router_identify(struct router *r, struct net_request *req,
                                    enum router_role wants, struct router_caller *out,
                                    struct lr_error *err);
/* The same by the session's cookie alone; role PUBLIC: the cookie is of no session that lives.
 */
void router_identify_session(struct router *r, const struct net_request *req,
                             struct router_caller *out);
/* The answer to a key that is no good: *err says why.  A key that was never issued counts as a
 * wrong key of its address, and RATE_LIMITED takes the place of *err where there were too many
 * (tries.h). */
LR_MUST_USE lr_code router_refuse_key(struct router *r, struct net_request *req,
                                      struct lr_str text, struct lr_error *err);

/* For net_bus: a stream of events outlives the check at its beginning, not the right to it. */
bool router_may_listen(void *arg, struct net_request *req);

/* The name of the session's cookie.  Browsers keep cookies by host alone, and two routers on
 * one host must not sign each other out: the name has the port, or, where several routers share
 * a database and its sessions, the name of the database. */
struct lr_str router_cookie_name(const struct router *r, char out[32]);

/* api_oidc.c: "https://router.example.com", as the browser of this request knows the router. */
const char *router_oidc_base(struct router *r, struct net_request *req, char out[2048]);

/* Handlers. */
router_api_fn router_api_complete, router_api_v1_models, router_api_v1_model, router_api_models,
    router_api_register, router_api_resolve, router_api_search, router_api_registry,
    router_api_manifest, router_api_count, router_api_model_change, router_api_delete_model,
    router_api_model_action, router_api_explain, router_api_join, router_api_heartbeat,
    router_api_nodes, router_api_routers, router_api_node_change, router_api_node_token,
    router_api_node_forward, router_api_keys, router_api_key_create, router_api_key_change,
    router_api_key_revoke, router_api_key_rotate, router_api_self, router_api_usage,
    router_api_audit, router_api_logs, router_api_events, router_api_whoami, router_api_sign_in,
    router_api_sign_out, router_api_sessions, router_api_session_end, router_api_oidc_start,
    router_api_oidc_callback, router_api_stats, router_api_history, router_api_alerts,
    router_api_health, router_api_livez, router_api_readyz, router_api_alert_silence,
    router_api_alert_unsilence, router_api_metrics, router_api_dashboard, router_api_asset,
    router_api_response, router_api_response_delete, router_api_response_items,
    router_api_response_cancel, router_api_response_compact, router_api_version,
    router_api_tags, router_api_ps, router_api_show, router_api_pull, router_api_delete_named,
    router_api_copy, router_api_create, router_api_requests, router_api_one_request;

#endif
