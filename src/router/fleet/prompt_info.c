#include "router/fleet/prompt_info.h"

#include <stdlib.h>

static void add_text(struct lr_sha256 *h, struct lr_str text)
{
    uint64_t len = text.len;
    lr_sha256_add(h, &len, sizeof(len)); /* so that no two lists of texts read alike */
    lr_sha256_add(h, text.ptr != NULL ? text.ptr : "", text.len);
}

static void add_sampling(struct lr_sha256 *h, const struct lr_sampling_defaults *s)
{
    /* A value that is not given may be anything. */
    const float values[] = {s->given & LR_GIVEN_TEMPERATURE ? s->temperature : 0,
                            s->given & LR_GIVEN_TOP_P ? s->top_p : 0,
                            s->given & LR_GIVEN_MIN_P ? s->min_p : 0,
                            s->given & LR_GIVEN_REPETITION_PENALTY ? s->repetition_penalty : 0,
                            (float)(s->given & LR_GIVEN_TOP_K ? s->top_k : 0)};
    lr_sha256_add(h, &s->given, sizeof(s->given));
    lr_sha256_add(h, values, sizeof(values));
}

static void hash_report(const struct wire_fleet_model *m, struct lr_str dialect,
                        unsigned char out[LR_SHA256_LEN])
{
    struct lr_sha256 h;
    lr_sha256_init(&h);
    add_text(&h, m->chat_template);
    add_text(&h, m->bos_token);
    add_text(&h, m->eos_token);
    add_text(&h, m->unk_token);
    add_text(&h, m->pad_token);
    add_text(&h, m->chat_template.len == 0 ? m->dialect : (struct lr_str){0});
    add_text(&h, dialect);
    add_sampling(&h, &m->sampling);
    lr_sha256_end(&h, out);
}

static struct lr_str prompt_info_keep(struct lr_arena *arena, struct lr_str text)
{
    const char *copy = text.len != 0 ? lr_arena_copy(arena, text) : NULL;
    return lr_str(copy, copy != NULL ? text.len : 0);
}

static void destroy(struct router_prompt_info *info)
{
    jinja_template_destroy(info->tmpl);
    lr_arena_free(&info->texts);
    free(info);
}

/* With a template not the node's word: a registration may have its own template, and an older
 * node goes by the name of the engine. */
static struct chat_dialect choose_dialect(const struct wire_fleet_model *report,
                                          struct lr_str chosen, struct lr_str source)
{
    struct chat_dialect dialect;
    struct lr_str name = chosen.len != 0 || source.len != 0 ? chosen : report->dialect;
    return chat_dialect_named(name, source, &dialect)
               ? dialect
               : chat_dialect_of(source, report->architecture);
}

lr_code router_prompt_info_get(struct router_prompt_infos *infos,
                               const struct wire_fleet_model *report, struct lr_str dialect,
                               struct router_prompt_info **out, struct lr_error *err)
{
    unsigned char hash[LR_SHA256_LEN];
    *out = NULL;
    hash_report(report, dialect, hash);
    for (struct router_prompt_info *i = infos->first; i != NULL; i = i->next)
        if (memcmp(i->hash, hash, sizeof(hash)) == 0) {
            *out = router_prompt_info_ref(i);
            return LR_OK;
        }
    struct router_prompt_info *info = calloc(1, sizeof(*info));
    if (info == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a chat template");
    lr_arena_init(&info->texts, 1 << 20);
    memcpy(info->hash, hash, sizeof(hash));
    info->refs = 1;
    lr_code code = report->chat_template.len != 0
                       ? jinja_compile(report->chat_template, &info->tmpl, err)
                       : LR_OK;
    if (code != LR_OK) {
        destroy(info);
        return lr_fail_prefix(err, "chat template");
    }
    info->source = prompt_info_keep(&info->texts, report->chat_template);
    info->chat = (struct chat_model){
        .chat_template = info->tmpl,
        .source = info->source,
        .bos_token = prompt_info_keep(&info->texts, report->bos_token),
        .eos_token = prompt_info_keep(&info->texts, report->eos_token),
        .unk_token = prompt_info_keep(&info->texts, report->unk_token),
        .pad_token = prompt_info_keep(&info->texts, report->pad_token),
        .sampling = report->sampling,
    };
    info->chat.lacks_template =
        info->source.len == 0 && lr_str_eq_z(report->dialect, WIRE_DIALECT_NONE);
    info->chat.dialect = choose_dialect(report, dialect, info->source);
    chat_model_learn(&info->chat);
    info->next = infos->first;
    infos->first = info;
    *out = info;
    return LR_OK;
}

struct router_prompt_info *router_prompt_info_ref(struct router_prompt_info *info)
{
    info->refs++;
    return info;
}

void router_prompt_info_unref(struct router_prompt_infos *infos,
                              struct router_prompt_info *info)
{
    if (info == NULL || --info->refs != 0)
        return;
    struct router_prompt_info **link = &infos->first;
    while (*link != info)
        link = &(*link)->next;
    *link = info->next;
    destroy(info);
}

void router_prompt_infos_free(struct router_prompt_infos *infos)
{
    while (infos->first != NULL) {
        struct router_prompt_info *info = infos->first;
        infos->first = info->next;
        destroy(info);
    }
}
