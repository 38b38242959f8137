/* router/http/api_ollama.c - what Ollama's clients ask about models: /api/tags, /api/show,
 * /api/ps and /api/version.  Chat, generate and embed are codecs (chat/ollama); pull and delete
 * are in api_pull.c and api_delete.c.
 */
#include <stdio.h>

#include "base/errors.h"
#include "base/sha256.h"
#include "router/http/api.h"
#include "router/http/availability.h"
#include "router/http/state.h"

/* Clients ask for the version to learn which routes there are: these are those of this release
 * of Ollama. */
#define VERSION "0.32.0"
/* A model stays in memory until the memory is needed. */
#define NEVER "9999-12-31T23:59:59Z"

lr_code router_api_version(struct router *r, struct net_request *req, struct lr_error *err)
{
    (void)err;
    LR_JSON_MEMBERS(router_answer_begin(req), LR_TEXT("version", VERSION),
                    LR_TEXT("llm_router", r->version));
    return router_answer(req, 200);
}

/* Clients show the first digits, so there are always some: of the manifest, else of the id. */
static void put_digest(struct lr_json_writer *w, const struct router_model *m)
{
    unsigned char hash[LR_SHA256_LEN];
    char hex[LR_SHA256_HEX_LEN + 1];
    lr_sha256_of(lr_str_z(m->folded), hash);
    lr_sha256_hex(hash, hex);
    lr_json_member_z(w, "digest", m->manifest_sha256[0] != '\0' ? m->manifest_sha256 : hex);
}

static const char *family_of(const struct router_availability *o)
{
    return o->best != NULL ? o->best->architecture : "";
}

static void put_details(struct lr_json_writer *w, const struct router_model *m,
                        const struct router_availability *o)
{
    const char *format = m->format[0] != '\0' || o->best == NULL ? m->format : o->best->format;
    lr_json_member_object(w, "details");
    LR_JSON_MEMBERS(w, LR_TEXT("parent_model", ""), LR_TEXT("format", format),
                    LR_TEXT("family", family_of(o)));
    lr_json_member_array(w, "families");
    lr_json_put_z(w, family_of(o));
    lr_json_end_array(w);
    LR_JSON_MEMBERS(w, LR_TEXT("parameter_size", ""), LR_TEXT("quantization_level", ""));
    lr_json_end_object(w);
}

static void put_time(struct lr_json_writer *w, const struct router_model *m)
{
    char time[LR_TIME_TEXT_LEN + 1];
    lr_time_format(m->created_ms, time);
    lr_json_member_z(w, "modified_at", time);
}

static void put_model(struct lr_json_writer *w, const struct router_model *m,
                      struct lr_str name, const struct router_availability *o)
{
    LR_JSON_MEMBERS(w, LR_STR("name", name), LR_STR("model", name));
    put_time(w, m);
    lr_json_member_u64(w, "size", o->weight_bytes);
    put_digest(w, m);
    put_details(w, m, o);
}

static void put_tag(void *ctx, const struct router_model *m, struct lr_str name,
                    const struct router_availability *o)
{
    struct lr_json_writer *w = ctx;
    lr_json_begin_object(w);
    put_model(w, m, name, o);
    lr_json_end_object(w);
}

/* By id only: an alias is no further model in memory. */
static void put_loaded(void *ctx, const struct router_model *m, struct lr_str name,
                       const struct router_availability *o)
{
    struct lr_json_writer *w = ctx;
    if (!o->is_loaded || !lr_str_eq_z(name, m->id))
        return;
    lr_json_begin_object(w);
    put_model(w, m, name, o);
    LR_JSON_MEMBERS(w, LR_TEXT("expires_at", NEVER), LR_UINT("size_vram", o->gpu_bytes),
                    LR_UINT("context_length", o->context));
    lr_json_end_object(w);
}

static lr_code list_names(struct router *r, struct net_request *req, router_name_fn *put)
{
    struct lr_json_writer *w = router_answer_begin(req);
    lr_json_member_array(w, "models");
    router_each_name(r, req, put, w);
    lr_json_end_array(w);
    return router_answer(req, 200);
}

lr_code router_api_tags(struct router *r, struct net_request *req, struct lr_error *err)
{
    (void)err;
    return list_names(r, req, put_tag);
}

lr_code router_api_ps(struct router *r, struct net_request *req, struct lr_error *err)
{
    (void)err;
    return list_names(r, req, put_loaded);
}

lr_code router_named_model(const struct lr_json *body, struct lr_str *out, struct lr_error *err)
{
    if ((lr_json_str(lr_json_get(body, "model"), out) && out->len != 0) ||
        (lr_json_str(lr_json_get(body, "name"), out) && out->len != 0))
        return LR_OK;
    return lr_fail_plain(err, model_missing);
}

/* The publisher's sampling values, a line each. */
static void write_parameters(const struct lr_sampling_defaults *d, char *out, size_t size)
{
    const struct {
        uint32_t bit;
        const char *name;
        double value;
    } rows[] = {{LR_GIVEN_TEMPERATURE, "temperature", (double)d->temperature},
                {LR_GIVEN_TOP_P, "top_p", (double)d->top_p},
                {LR_GIVEN_TOP_K, "top_k", d->top_k},
                {LR_GIVEN_MIN_P, "min_p", (double)d->min_p},
                {LR_GIVEN_REPETITION_PENALTY, "repeat_penalty", (double)d->repetition_penalty}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && at < size; i++)
        if ((d->given & rows[i].bit) != 0)
            at += (size_t)snprintf(out + at, size - at, "%s%s %.4g", at != 0 ? "\n" : "",
                                   rows[i].name, rows[i].value);
}

/* Lock held. */
static void put_show(struct router *r, struct router_model *m, struct lr_json_writer *w)
{
    struct router_availability o = router_model_availability(r, m);
    const struct router_prompt_info *info = router_model_info(
        m, &r->nodes.infos, router_nodes_info(&r->nodes, lr_str_z(m->folded)));
    char key[160];
    char parameters[256] = "";
    if (info != NULL)
        write_parameters(&info->chat.sampling, parameters, sizeof(parameters));
    bool has_own = m->chat_template[0] != '\0';
    LR_JSON_MEMBERS(
        w, LR_TEXT("license", ""), LR_TEXT("modelfile", ""), LR_TEXT("parameters", parameters),
        LR_STR("template", has_own || info == NULL ? lr_str_z(m->chat_template) : info->source),
        LR_TEXT("system", ""));
    put_details(w, m, &o);
    put_time(w, m);
    lr_json_member_array(w, "capabilities");
    if (o.requests == 0 || (o.requests >> LR_REQUEST_GENERATE & 1) != 0)
        lr_json_put_z(w, "completion");
    if ((o.requests >> LR_REQUEST_EMBED & 1) != 0)
        lr_json_put_z(w, "embedding");
    if (info != NULL && info->chat.dialect.format != GRAMMAR_PLAIN)
        lr_json_put_z(w, "tools");
    if (info != NULL && chat_dialect_thinks(&info->chat.dialect))
        lr_json_put_z(w, "thinking");
    lr_json_end_array(w);
    lr_json_member_object(w, "model_info");
    lr_json_member_z(w, "general.architecture", family_of(&o));
    if (o.context != 0) {
        (void)snprintf(key, sizeof(key), "%s.context_length", family_of(&o));
        lr_json_member_u64(w, key, o.context);
    }
    lr_json_end_object(w);
}

lr_code router_api_show(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct lr_json *body;
    struct router_model *model;
    struct lr_str name;
    lr_code code = router_body(req, &body, err);
    if (code == LR_OK)
        code = router_named_model(body, &name, err);
    if (code != LR_OK)
        return code;
    router_lock(r);
    code = router_find_for_caller(r, req, name, &model, err);
    if (code == LR_OK)
        put_show(r, model, router_answer_begin(req));
    router_unlock(r);
    return code == LR_OK ? router_answer(req, 200) : code;
}
