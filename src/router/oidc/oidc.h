/* router/oidc/oidc.h - signing in with an OpenID provider (OpenID Connect Core 1.0, code flow
 * with PKCE).
 *
 *   claims.h    what the provider says, checked; pure
 *   flow.h      secrets, URLs and forms of a sign-in; pure
 *   provider.h  the requests to the provider
 *   oidc.c      settings, and the thread that makes the requests
 *
 * Requests to the provider wait, so a thread of its own makes them, one after the other, and
 * the answer is posted to the loop of the browser's request.  Thread: any, unless a comment
 * says otherwise.
 */
#ifndef ROUTER_OIDC_OIDC_H
#define ROUTER_OIDC_OIDC_H

#include <pthread.h>

#include "net/loop.h"
#include "router/oidc/provider.h"
#include "router/store/sign_ins.h"

/* Something to do for a request of a browser; the caller owns it until done was called. */
struct router_oidc_task {
    struct router_oidc_task *next;
    struct net_loop *loop;
    net_loop_fn done; /* posted to the loop */
    void *arg;
    bool is_begin; /* finds the URL of the sign-in; else changes a code into a person */
    struct router_oidc_flow flow;
    char redirect_url[ROUTER_OIDC_URL];
    char code[ROUTER_OIDC_URL];
    /* out */
    lr_code outcome;
    struct lr_error err;
    char url[2 * ROUTER_OIDC_URL];
    struct router_oidc_person person;
};

struct router_oidc {
    struct router_oidc_config config;
    char cookie_key[ROUTER_SIGN_IN_KEY + 1]; /* of the database; set before the loops run */
    struct router_oidc_provider provider;    /* thread: the sign-in thread */
    pthread_t thread;
    bool is_running;
    _Atomic bool is_stopping;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct router_oidc_task *first, **last;
    size_t waiting;
    char end_session[ROUTER_OIDC_URL]; /* of the provider; "": not known, or not offered */
};

/* Reads the settings.  needs_key: the router asks callers for a key. */
LR_MUST_USE lr_code router_oidc_init(struct router_oidc *oidc,
                                     const struct lr_settings *settings, bool needs_key,
                                     struct lr_error *err);
static inline bool router_oidc_is_on(const struct router_oidc *oidc)
{
    return oidc->config.settings != NULL;
}
LR_MUST_USE lr_code router_oidc_start(struct router_oidc *oidc, struct lr_error *err);
/* The router ends: a request to the provider is given up, and further tasks fail. */
void router_oidc_cancel(struct router_oidc *oidc);
/* The loops have ended. */
void router_oidc_free(struct router_oidc *oidc);

/* UNAVAILABLE: too many sign-ins are under way. */
LR_MUST_USE lr_code router_oidc_submit(struct router_oidc *oidc, struct router_oidc_task *task,
                                       struct lr_error *err);

/* Where a browser goes to sign out at the provider.  False: the provider does not offer it. */
bool router_oidc_end_url(struct router_oidc *oidc, const char *base, char out[ROUTER_OIDC_URL]);

#endif
