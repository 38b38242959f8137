/* hub/register.c - registration: listing, small files and manifest in one call. */
#include "hub/register.h"

#include <stdlib.h>

#include "base/log.h"
#include "hub/reference.h"

enum { MOST_ARTIFACT_REPOS = 8, MOST_INDEXES = 8, TEMPLATE_ARENA_MAX = 128 << 20 };

struct work {
    const struct hub_register_input *in;
    struct hub_reference reference;
    struct hub_request request;
    char id[HUB_REFERENCE_NAME_MAX];
    struct hub_listing *listing;
    struct hub_listing *others[MOST_ARTIFACT_REPOS];
    size_t other_count;
    uint32_t *retry_after_s;
    struct lr_error *err;
};

/* ---- files that are read ---- */

static lr_code fetch_texts(struct work *w)
{
    static const char *const fixed[] = {"config.json", "tokenizer_config.json",
                                        "generation_config.json", "special_tokens_map.json",
                                        "chat_template.jinja"};
    const char *names[5 + MOST_INDEXES];
    size_t count = 0;
    if (w->request.format == HUB_FORMAT_GGUF)
        return LR_OK;
    for (; count < sizeof(fixed) / sizeof(fixed[0]); count++)
        names[count] = fixed[count];
    for (size_t i = 0; i < w->listing->file_count && count < 5 + MOST_INDEXES; i++) {
        struct lr_str name = w->listing->files[i].name;
        if (lr_str_ends(name, ".safetensors.index.json") &&
            lr_str_find_char(name, '/') == LR_STR_NONE)
            names[count++] = name.ptr; /* terminated: an arena copy */
    }
    return hub_list_fetch(w->in->client, w->listing, names, count, w->retry_after_s, w->err);
}

/* Lists the publisher's other repositories that supported_models.json names.  If listing fails,
 * the registration continues without their artifacts. */
static void list_artifacts(struct work *w)
{
    struct lr_str repo = lr_str_z(w->listing->repo);
    const struct hub_known_model *model = hub_supported_find(w->in->supported, repo);
    for (size_t i = 0; model != NULL && i < model->artifact_count; i++) {
        const struct hub_known_artifact *artifact = &model->artifacts[i];
        struct lr_str other = lr_str_z(artifact->repo);
        bool is_listed = lr_str_eq_nocase(other, repo);
        for (size_t k = 0; k < w->other_count; k++)
            is_listed = is_listed || lr_str_eq_nocase(other, lr_str_z(w->others[k]->repo));
        if (is_listed || w->other_count == MOST_ARTIFACT_REPOS ||
            !lr_str_eq_nocase(hub_repo_owner(other), hub_repo_owner(repo)))
            continue;
        struct lr_error why;
        if (hub_list(w->in->client, artifact->repo, artifact->revision,
                     &w->others[w->other_count], NULL, &why) == LR_OK)
            w->other_count++;
        else
            lr_log_warn(LR_LOG_OF(&why), "hub.artifact_repo model=%s repo=%s error=%s",
                        w->listing->repo, artifact->repo, why.text);
    }
}

/* ---- the chat template's text ---- */

/* A string, or a list of {"name", "template"} of which "default" is used. */
static bool template_text(const struct lr_json *value, struct lr_str *out)
{
    if (lr_json_str(value, out))
        return true;
    for (size_t i = 0; lr_json_is(value, LR_JSON_ARRAY) && i < value->count; i++) {
        struct lr_str name;
        if (lr_json_str(lr_json_get(&value->items[i], "name"), &name) &&
            lr_str_eq_z(name, "default"))
            return lr_json_str(lr_json_get(&value->items[i], "template"), out);
    }
    return false;
}

static void find_template(struct hub_registration *out)
{
    const struct hub_text *file = hub_listing_text(out->listing, "chat_template.jinja");
    struct lr_arena arena;
    const struct lr_json *tree;
    struct lr_str text;
    if (file != NULL) {
        out->chat_template = file->text;
        out->chat_template_from = "chat_template.jinja";
        return;
    }
    if (out->tokenizer_config.len == 0)
        return;
    lr_arena_init(&arena, TEMPLATE_ARENA_MAX);
    if (lr_json_parse(&arena, out->tokenizer_config, NULL, &tree, NULL) == LR_OK &&
        template_text(lr_json_get(tree, "chat_template"), &text)) {
        char *copy = lr_arena_copy(&out->listing->arena, text);
        if (copy != NULL) {
            out->chat_template = lr_str(copy, text.len);
            out->chat_template_from = "tokenizer_config.json";
        }
    }
    lr_arena_free(&arena);
}

static struct lr_str register_text_of(const struct hub_listing *listing, const char *name)
{
    const struct hub_text *text = hub_listing_text(listing, name);
    return text != NULL ? text->text : (struct lr_str){0};
}

/* ---- the whole registration ---- */

static lr_code register_prepare(struct work *w)
{
    lr_code code =
        hub_reference_parse(&w->in->client->policy, w->in->repo, &w->reference, w->err);
    if (code != LR_OK)
        return code;
    w->request = w->in->request;
    if (w->request.filename.len == 0)
        w->request.filename = lr_str_z(w->reference.filename);
    w->request.quant = lr_str_z(w->reference.quant);
    if (w->request.quant.len != 0 && w->request.format == HUB_FORMAT_NONE)
        w->request.format = HUB_FORMAT_GGUF;
    if (lr_str_ends(w->request.filename, ".gguf") && w->request.format == HUB_FORMAT_NONE)
        w->request.format = HUB_FORMAT_GGUF;
    if (w->in->revision.len >= sizeof(w->reference.revision))
        return lr_fail(w->err, LR_INVALID_ARGUMENT, "revision is longer than %zu bytes",
                       sizeof(w->reference.revision) - 1);
    if (w->in->revision.len != 0) {
        memcpy(w->reference.revision, w->in->revision.ptr, w->in->revision.len);
        w->reference.revision[w->in->revision.len] = '\0';
    }
    return LR_OK;
}

static lr_code work_through(struct work *w, struct hub_registration *out)
{
    lr_code code = register_prepare(w);
    if (code == LR_OK)
        code = hub_list(w->in->client, w->reference.repo, w->reference.revision, &w->listing,
                        w->retry_after_s, w->err);
    if (code == LR_OK && w->request.quant.len != 0 && w->request.name.len == 0) {
        struct hub_reference ref = w->reference;
        LR_COPY(ref.repo, lr_str_z(w->listing->repo));
        hub_reference_id(&ref, w->id);
        w->request.name = lr_str_z(w->id);
    }
    if (code == LR_OK)
        code = fetch_texts(w);
    if (code != LR_OK)
        return code;
    list_artifacts(w);
    const struct hub_listing *others[MOST_ARTIFACT_REPOS];
    for (size_t i = 0; i < w->other_count; i++)
        others[i] = w->others[i];
    struct hub_build_input input = {.policy = &w->in->client->policy,
                                    .listing = w->listing,
                                    .artifact_listings = others,
                                    .artifact_listing_count = w->other_count,
                                    .supported = w->in->supported,
                                    .publishers = w->in->publishers};
    return hub_manifest_build(&input, &w->request, &out->manifest, w->err);
}

lr_code hub_register(const struct hub_register_input *in, struct hub_registration *out,
                     uint32_t *retry_after_s, struct lr_error *err)
{
    struct lr_error local;
    struct work w = {
        .in = in, .retry_after_s = retry_after_s, .err = err != NULL ? err : &local};
    memset(out, 0, sizeof(*out));
    if (retry_after_s != NULL)
        *retry_after_s = 0;
    lr_code code = work_through(&w, out);
    for (size_t i = 0; i < w.other_count; i++)
        hub_listing_destroy(w.others[i]);
    if (code != LR_OK) {
        hub_listing_destroy(w.listing);
        return code;
    }
    out->listing = w.listing;
    if (out->manifest->format == HUB_FORMAT_SAFETENSORS) {
        out->config = register_text_of(w.listing, "config.json");
        out->tokenizer_config = register_text_of(w.listing, "tokenizer_config.json");
        out->generation_config = register_text_of(w.listing, "generation_config.json");
        find_template(out);
    }
    return LR_OK;
}

void hub_registration_free(struct hub_registration *registration)
{
    hub_manifest_destroy(registration->manifest);
    hub_listing_destroy(registration->listing);
    memset(registration, 0, sizeof(*registration));
}
