#include "router/oidc/oidc.h"

#include <stdio.h>

#include "base/log.h"
#include "base/os/process.h"
#include "net/url.h"

enum { WAITING_MAX = 64 };

/* ---- settings ---- */

static lr_code check_lists(const struct router_oidc_config *c, struct lr_error *err)
{
    if (c->default_role != ROUTER_PUBLIC ||
        lr_settings_list_count(c->settings, "oidc-admin-group") != 0 ||
        lr_settings_list_count(c->settings, "oidc-viewer-group") != 0 ||
        lr_settings_list_count(c->settings, "oidc-api-group") != 0)
        return LR_OK;
    return lr_fail(
        err, LR_INVALID_ARGUMENT,
        "with oidc-issuer nobody may sign in yet: name groups with oidc-admin-group, "
        "oidc-viewer-group or oidc-api-group, or give oidc-default-role");
}

static lr_code check_urls(const struct router_oidc_config *c, struct lr_error *err)
{
    if (!router_oidc_is_safe_url(c->issuer) || strlen(c->issuer) > 500)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "oidc-issuer must be an https URL like https://id.example.com/realms/x "
                       "(http only for a provider on this machine)");
    if (c->redirect_url == NULL)
        return LR_OK;
    if (!router_oidc_is_safe_url(c->redirect_url) || strlen(c->redirect_url) > 500 ||
        !lr_str_ends(lr_str_z(c->redirect_url), "/v0/oidc/callback"))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "oidc-redirect-url must be an https URL that ends in "
                       "/v0/oidc/callback");
    return LR_OK;
}

lr_code router_oidc_init(struct router_oidc *o, const struct lr_settings *s, bool needs_key,
                         struct lr_error *err)
{
    struct router_oidc_config c = {
        .settings = s,
        .issuer = lr_settings_str(s, "oidc-issuer"),
        .client_id = lr_settings_str(s, "oidc-client-id"),
        .scopes = lr_settings_str(s, "oidc-scopes"),
        .groups_claim = lr_settings_str(s, "oidc-groups-claim"),
        .title = lr_settings_str(s, "oidc-name"),
        .redirect_url = lr_settings_str(s, "oidc-redirect-url"),
        .skew_ms = (int64_t)lr_settings_ms(s, "oidc-clock-skew"),
    };
    if (c.issuer == NULL)
        return LR_OK;
    if (c.client_id == NULL || strlen(c.client_id) > 250)
        return lr_fail(
            err, LR_INVALID_ARGUMENT,
            "oidc-issuer needs oidc-client-id, the id that the provider gave to this "
            "client");
    if (!needs_key)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "oidc-issuer is of no use where no key is asked for: add --require-key");
    if (!router_role_find(lr_str_z(lr_settings_str(s, "oidc-default-role")), &c.default_role))
        c.default_role = ROUTER_PUBLIC;
    lr_code code = check_urls(&c, err);
    if (code == LR_OK)
        code = check_lists(&c, err);
    if (code == LR_OK)
        code = lr_settings_secret(s, "oidc-client-secret", c.secret, sizeof(c.secret), err);
    if (code != LR_OK)
        return code;
    o->config = c;
    return LR_OK;
}

/* ---- the thread ---- */

static void oidc_begin(struct router_oidc *o, struct router_oidc_task *task)
{
    struct lr_buf url;
    task->outcome = router_oidc_discover(&o->provider, &task->err);
    if (task->outcome != LR_OK)
        return;
    lr_buf_init(&url, sizeof(task->url) - 1);
    router_oidc_authorize_url(&o->config, &o->provider.metadata, &task->flow,
                              task->redirect_url, &url);
    if (url.failed)
        task->outcome = lr_fail(&task->err, LR_UPSTREAM, "the URL of the sign-in is too long");
    else
        LR_COPY(task->url, lr_buf_str(&url));
    lr_buf_free(&url);
}

static void run_task(struct router_oidc *o, struct router_oidc_task *task)
{
    if (atomic_load(&o->is_stopping))
        task->outcome = lr_fail(&task->err, LR_UNAVAILABLE, "this router is shutting down");
    else if (task->is_begin)
        oidc_begin(o, task);
    else
        task->outcome = router_oidc_exchange(&o->provider, &task->flow, task->redirect_url,
                                             task->code, &task->person, &task->err);
}

static void note_logout(struct router_oidc *o)
{
    (void)pthread_mutex_lock(&o->lock);
    LR_COPY(o->end_session, lr_str_z(o->provider.metadata.end_session));
    (void)pthread_mutex_unlock(&o->lock);
}

static void *oidc_run(void *arg)
{
    struct router_oidc *o = arg;
    struct lr_error err;
    if (router_oidc_discover(&o->provider, &err) == LR_OK) /* else with the first sign-in */
        note_logout(o);
    (void)pthread_mutex_lock(&o->lock);
    for (;;) {
        while (o->first == NULL && !atomic_load(&o->is_stopping))
            (void)pthread_cond_wait(&o->wake, &o->lock);
        struct router_oidc_task *task = o->first;
        if (task == NULL)
            break;
        o->first = task->next;
        if (o->first == NULL)
            o->last = &o->first;
        o->waiting--;
        (void)pthread_mutex_unlock(&o->lock);
        run_task(o, task);
        note_logout(o);
        net_loop_post(task->loop, task->done, task->arg);
        (void)pthread_mutex_lock(&o->lock);
    }
    (void)pthread_mutex_unlock(&o->lock);
    return NULL;
}

lr_code router_oidc_start(struct router_oidc *o, struct lr_error *err)
{
    if (!router_oidc_is_on(o))
        return LR_OK;
    o->last = &o->first;
    o->provider.config = &o->config;
    o->provider.cancel = &o->is_stopping;
    (void)pthread_mutex_init(&o->lock, NULL);
    (void)pthread_cond_init(&o->wake, NULL);
    if (pthread_create(&o->thread, NULL, oidc_run, o) != 0)
        return lr_fail(err, LR_OUT_OF_RAM, "cannot start the thread for sign-ins");
    o->is_running = true;
    return LR_OK;
}

void router_oidc_cancel(struct router_oidc *o)
{
    if (!o->is_running)
        return;
    (void)pthread_mutex_lock(&o->lock);
    atomic_store(&o->is_stopping, true);
    (void)pthread_cond_signal(&o->wake);
    (void)pthread_mutex_unlock(&o->lock);
}

void router_oidc_free(struct router_oidc *o)
{
    if (!o->is_running)
        return;
    router_oidc_cancel(o);
    (void)pthread_join(o->thread, NULL);
    (void)pthread_mutex_destroy(&o->lock);
    (void)pthread_cond_destroy(&o->wake);
    router_oidc_provider_free(&o->provider);
    o->is_running = false;
}

lr_code router_oidc_submit(struct router_oidc *o, struct router_oidc_task *task,
                           struct lr_error *err)
{
    lr_code code = LR_OK;
    (void)pthread_mutex_lock(&o->lock);
    if (o->waiting == WAITING_MAX || atomic_load(&o->is_stopping)) {
        code = lr_fail(err, LR_UNAVAILABLE,
                       "%d sign-ins wait for the OpenID provider: try again in a moment",
                       WAITING_MAX);
    } else {
        o->waiting++;
        task->next = NULL;
        *o->last = task;
        o->last = &task->next;
        (void)pthread_cond_signal(&o->wake);
    }
    (void)pthread_mutex_unlock(&o->lock);
    return code;
}

bool router_oidc_end_url(struct router_oidc *o, const char *base, char out[ROUTER_OIDC_URL])
{
    struct router_oidc_metadata metadata = {0};
    char back[ROUTER_OIDC_URL];
    struct lr_buf url;
    if (!o->is_running)
        return false;
    (void)pthread_mutex_lock(&o->lock);
    LR_COPY(metadata.end_session, lr_str_z(o->end_session));
    (void)pthread_mutex_unlock(&o->lock);
    if (metadata.end_session[0] == '\0')
        return false;
    (void)snprintf(back, sizeof(back), "%.2000s/", base);
    lr_buf_init(&url, ROUTER_OIDC_URL - 1);
    router_oidc_logout_url(&o->config, &metadata, back, &url);
    bool fits = !url.failed;
    lr_str_copy(out, ROUTER_OIDC_URL, lr_buf_str(&url));
    lr_buf_free(&url);
    return fits;
}
