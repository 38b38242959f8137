/* router/fleet/register.h - adding and removing registrations, in memory and on disk.
 * Thread: any loop; the lock is taken inside.
 */
#ifndef ROUTER_FLEET_REGISTER_H
#define ROUTER_FLEET_REGISTER_H

#include "router/state.h"

typedef void (*router_registered_fn)(void *arg, const struct lr_error *err);

/* Adds a model and stores it, then calls fn(arg) on `loop` (fn may be NULL).  The model
 * serves once fn was called without an error.  CONFLICT: the id is taken.  actor: who asked
 * for it, for the audit log; NULL: nobody did. */
void router_register(struct router *r, const struct router_new_model *model, const char *actor,
                     struct net_loop *loop, router_registered_fn fn, void *arg);

/* CONFLICT: the id is taken; the first stays untouched.  Asked before a hub or a
 * node is, so that a second registration costs nothing. */
LR_MUST_USE lr_code router_check_free(struct router *r, struct lr_str id, struct lr_error *err);

/* POST /v0/models/register with "repo" (register_repo.c) and with "path"
 * (register_path.c): they end req. */
void router_register_repo(struct router *r, struct net_request *req,
                          const struct lr_json *body);
void router_register_path(struct router *r, struct net_request *req,
                          const struct lr_json *body);

/* A member of the body as text, empty where there is none.  False: it is no string, and
 * req was ended. */
bool router_read_text(struct net_request *req, const struct lr_json *body, const char *key,
                      struct lr_str *out);

/* "chat_template" of the body, which must compile: INVALID_ARGUMENT says where not. */
LR_MUST_USE lr_code router_check_template(struct lr_str text, struct lr_error *err);

/* Memory, before anybody has loaded it.  0: not known. */
struct router_need {
    uint64_t weights;
    uint64_t kv, tokens; /* of one request of the whole context */
};

/* 201 with the model, its manifest where it has one, and warnings: an operator should know
 * at once that nobody can run it.  Ends req. */
void router_answer_registered(struct router *r, struct net_request *req, const char *id,
                              struct lr_str manifest, const struct router_need *need);

/* With the lock held: why no node can run a model that needs this, or not with its whole
 * context; or nothing.  *out stays empty then. */
void router_foresee(const struct router *r, const struct router_need *need, struct lr_buf *out);

#endif
