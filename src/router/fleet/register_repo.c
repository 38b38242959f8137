/* router/fleet/register_repo.c - POST /v0/models/register with "repo".
 *
 * The hub is asked on a thread of its own (its calls block); the answer comes back to the
 * request's loop.  Few registrations run at once, since each may wait for a slow hub.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hub/client.h"
#include "hub/register.h"
#include "model/config.h"
#include "router/fleet/register.h"
#include "router/http/api.h"

enum { AT_ONCE_MAX = 4, MANIFEST_BYTES = 16 << 20, HOSTS_MAX = 16 };

struct asking {
    struct router *router;
    struct net_request *req;
    struct net_loop *loop;
    pthread_t thread;
    /* In the request's arena, which outlives the thread: the request waits for it. */
    struct lr_str repo, revision, filename, name, chat_template;
    enum hub_format format;
    struct hub_client client;
    struct hub_supported *supported;
    const char *publishers[HOSTS_MAX + 1]; /* NULL-terminated; none: the default */
    /* answer */
    struct lr_error err;
    lr_code code;
    uint32_t retry_after_s;
    struct router_need need; /* weights: of what every node must hold */
    struct lr_buf manifest;
    struct lr_buf template_text;
    char id[ROUTER_ID_MAX];
};

static _Atomic int asking_count;

static void finish(struct asking *a)
{
    hub_supported_destroy(a->supported);
    lr_buf_free(&a->manifest);
    lr_buf_free(&a->template_text);
    atomic_fetch_sub(&asking_count, 1);
}

static void answer(void *arg, const struct lr_error *err)
{
    struct asking *a = arg;
    if (err != NULL)
        net_respond_error(a->req, err);
    else
        router_answer_registered(a->router, a->req, a->id, lr_buf_str(&a->manifest), &a->need);
    finish(a);
}

static void refuse(struct asking *a)
{
    struct net_request *req = a->req;
    struct lr_error err = a->err;
    net_response_retry_after(req, a->retry_after_s);
    finish(a);
    net_respond_error(req, &err);
}

/* On the request's loop. */
static void on_asked(void *arg)
{
    struct asking *a = arg;
    (void)pthread_join(a->thread, NULL);
    if (a->code != LR_OK) {
        refuse(a);
        return;
    }
    struct router_new_model model = {
        .id = lr_str_z(a->id),
        .source = LR_STR_LIT("hub"),
        .format = lr_str_z(hub_format_name(a->format)),
        .manifest = lr_buf_str(&a->manifest),
        .chat_template = lr_buf_str(&a->template_text),
        .created_ms = lr_clock_wall_ms(NULL),
    };
    router_register(a->router, &model, router_caller_name(&router_access(a->req)->caller),
                    a->loop, answer, a);
}

static void foresee_context(struct asking *a, struct lr_str config)
{
    struct model_identity id;
    if (config.len == 0 || model_identity_parse(config, &id, NULL) != LR_OK)
        return;
    a->need.kv = id.kv_bytes;
    a->need.tokens = id.context_tokens;
}

static void *ask_hub(void *arg)
{
    struct asking *a = arg;
    struct hub_registration got = {0};
    struct hub_register_input in = {
        .client = &a->client,
        .supported = a->supported,
        .publishers = a->publishers[0] != NULL ? a->publishers : NULL,
        .repo = a->repo,
        .revision = a->revision,
        .request = {.format = a->format, .filename = a->filename, .name = a->name},
    };
    a->code = hub_register(&in, &got, &a->retry_after_s, &a->err);
    if (a->code == LR_OK) {
        hub_manifest_encode(got.manifest, &a->manifest);
        lr_buf_add_str(&a->template_text,
                       a->chat_template.len != 0 ? a->chat_template : lr_str(NULL, 0));
        (void)snprintf(a->id, sizeof(a->id), "%s", got.manifest->id);
        a->format = got.manifest->format;
        for (size_t i = 0; i < got.manifest->file_count; i++)
            if (!got.manifest->files[i].optional)
                a->need.weights += got.manifest->files[i].size;
        foresee_context(a, got.config);
        if (a->manifest.failed || a->template_text.failed)
            a->code =
                lr_fail(&a->err, LR_TOO_LARGE, "the manifest is over %d bytes", MANIFEST_BYTES);
    }
    hub_registration_free(&got);
    net_loop_post(a->loop, on_asked, a);
    return NULL;
}

/* Read anew each time: an operator's file may grow while the router runs. */
static lr_code read_supported(struct asking *a, struct lr_error *err)
{
    const char *path = lr_settings_str(a->router->settings, "supported-models");
    struct lr_str text = {0};
    lr_code code = LR_OK;
    if (path != NULL)
        code =
            lr_file_read(net_request_arena(a->req), path, HUB_SUPPORTED_BYTES_MAX, &text, err);
    if (code == LR_OK)
        code = hub_supported_parse(text, &a->supported, err);
    return code == LR_OK || path == NULL ? code
                                         : lr_fail_prefix(err, "supported-models %s", path);
}

static lr_code prepare(struct asking *a, struct lr_error *err)
{
    const struct lr_settings *s = a->router->settings;
    const char *hosts[HOSTS_MAX];
    size_t count = lr_settings_list_count(s, "hub-host");
    count = count < HOSTS_MAX ? count : HOSTS_MAX;
    for (size_t i = 0; i < count; i++)
        hosts[i] = lr_settings_list_item(s, "hub-host", i);
    lr_code code = hub_client_init(&a->client, hosts, count, err);
    size_t publishers = lr_settings_list_count(s, "artifact-publisher");
    for (size_t i = 0; i < publishers && i < HOSTS_MAX; i++)
        a->publishers[i] = lr_settings_list_item(s, "artifact-publisher", i);
    return code == LR_OK ? read_supported(a, err) : code;
}

void router_register_repo(struct router *r, struct net_request *req, const struct lr_json *body)
{
    struct lr_str format;
    struct lr_error err;
    struct asking *a = lr_arena_zalloc(net_request_arena(req), sizeof(*a));
    if (a == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a registration");
        return;
    }
    a->router = r;
    a->req = req;
    a->loop = net_request_loop(req);
    if (!router_read_text(req, body, "repo", &a->repo) ||
        !router_read_text(req, body, "revision", &a->revision) ||
        !router_read_text(req, body, "filename", &a->filename) ||
        !router_read_text(req, body, "name", &a->name) ||
        !router_read_text(req, body, "chat_template", &a->chat_template) ||
        !router_read_text(req, body, "format", &format))
        return;
    if (format.len != 0 && !hub_format_find(format, &a->format)) {
        router_refuse(req, LR_INVALID_ARGUMENT,
                      "\"format\" must be safetensors or gguf, not \"" LR_STR_FMT "\"",
                      LR_STR_ARG(lr_str_sub(format, 0, 60)));
        return;
    }
    lr_code code = router_check_free(r, a->name.len != 0 ? a->name : a->repo, &err);
    if (code == LR_OK)
        code = router_check_template(a->chat_template, &err);
    if (code == LR_OK && a->name.len != 0)
        code = router_check_model_id(a->name, &err);
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    if (atomic_fetch_add(&asking_count, 1) >= AT_ONCE_MAX) {
        atomic_fetch_sub(&asking_count, 1);
        router_refuse(req, LR_RATE_LIMITED,
                      "%d registrations are under way already: try again shortly", AT_ONCE_MAX);
        return;
    }
    lr_buf_init(&a->manifest, MANIFEST_BYTES);
    lr_buf_init(&a->template_text, 1 << 20);
    code = prepare(a, &err);
    if (code == LR_OK && pthread_create(&a->thread, NULL, ask_hub, a) != 0)
        code = lr_fail(&err, LR_OUT_OF_RAM, "cannot start a thread for the registration");
    if (code != LR_OK) {
        finish(a);
        net_respond_error(req, &err);
    }
}
