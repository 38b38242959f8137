#include "wire/fit.h"

#include "base/json.h"

static lr_code read_models(struct lr_arena *arena, struct lr_str text,
                           const struct lr_json **body, const struct lr_json **models,
                           struct lr_error *err)
{
    lr_code code = lr_json_parse(arena, text, NULL, body, err);
    *models = code == LR_OK ? lr_json_get(*body, "models") : NULL;
    if (code == LR_OK &&
        (!lr_json_is(*models, LR_JSON_ARRAY) || (*models)->count > WIRE_FIT_MAX))
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"models\" must be a list of up to %d",
                       WIRE_FIT_MAX);
    return code;
}

static struct lr_str fit_text(const struct lr_json *object, const char *key)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(object, key), &text);
    return text;
}

static uint64_t fit_number(const struct lr_json *object, const char *key)
{
    uint64_t value = 0;
    return lr_json_u64(lr_json_get(object, key), &value) ? value : 0;
}

void wire_fit_question_write(struct lr_buf *out, const struct wire_fit_question *m)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_array(&w, "models");
    for (size_t i = 0; i < m->count; i++)
        LR_JSON_ITEM(&w, LR_STR("runtime", m->models[i].runtime),
                     LR_STR("architecture", m->models[i].architecture),
                     LR_STR("format", m->models[i].format),
                     LR_UINT("bytes", m->models[i].bytes));
    lr_json_end_array(&w);
    lr_json_end_object(&w);
}

lr_code wire_fit_question_parse(struct lr_arena *arena, struct lr_str text,
                                struct wire_fit_question *out, struct lr_error *err)
{
    const struct lr_json *body, *models;
    out->count = 0;
    lr_code code = read_models(arena, text, &body, &models, err);
    for (uint32_t i = 0; code == LR_OK && i < models->count; i++) {
        const struct lr_json *m = &models->items[i];
        out->models[out->count++] =
            (struct wire_fit_ask){.runtime = fit_text(m, "runtime"),
                                  .architecture = fit_text(m, "architecture"),
                                  .format = fit_text(m, "format"),
                                  .bytes = fit_number(m, "bytes")};
    }
    return code;
}

void wire_fit_answer_write(struct lr_buf *out, const struct wire_fit_answer *m)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    LR_JSON_MEMBERS(&w, LR_UINT("disk_free", m->disk_free), LR_UINT("bandwidth", m->bandwidth));
    lr_json_member_array(&w, "models");
    for (size_t i = 0; i < m->count; i++) {
        const struct wire_fit_verdict *v = &m->models[i];
        lr_json_begin_object(&w);
        LR_JSON_MEMBERS(&w, LR_STR("engine", v->engine), LR_STR("reason", v->reason),
                        LR_STR("plan", v->plan), LR_STR("pool", v->pool),
                        LR_UINT("total", v->total), LR_UINT("available", v->available),
                        LR_FLAG("on_device", v->on_device));
        lr_json_member_array(&w, "evicts");
        for (size_t k = 0; k < v->evict_count; k++)
            lr_json_put_str(&w, v->evicts[k]);
        lr_json_end_array(&w);
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
    lr_json_end_object(&w);
}

static void read_verdict(const struct lr_json *m, struct wire_fit_verdict *out)
{
    const struct lr_json *evicts = lr_json_get(m, "evicts");
    *out = (struct wire_fit_verdict){.engine = fit_text(m, "engine"),
                                     .reason = fit_text(m, "reason"),
                                     .plan = fit_text(m, "plan"),
                                     .pool = fit_text(m, "pool"),
                                     .total = fit_number(m, "total"),
                                     .available = fit_number(m, "available")};
    (void)lr_json_bool(lr_json_get(m, "on_device"), &out->on_device);
    for (uint32_t i = 0; lr_json_is(evicts, LR_JSON_ARRAY) && i < evicts->count; i++)
        if (out->evict_count < WIRE_FIT_EVICTS_MAX &&
            lr_json_str(&evicts->items[i], &out->evicts[out->evict_count]))
            out->evict_count++;
}

lr_code wire_fit_answer_parse(struct lr_arena *arena, struct lr_str text,
                              struct wire_fit_answer *out, struct lr_error *err)
{
    const struct lr_json *body, *models;
    *out = (struct wire_fit_answer){0};
    lr_code code = read_models(arena, text, &body, &models, err);
    if (code != LR_OK)
        return code;
    out->disk_free = fit_number(body, "disk_free");
    out->bandwidth = fit_number(body, "bandwidth");
    for (uint32_t i = 0; i < models->count; i++)
        read_verdict(&models->items[i], &out->models[out->count++]);
    return LR_OK;
}
