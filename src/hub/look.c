#include "hub/look.h"

enum {
    HEAD_BYTES = 256 << 10, /* of a GGUF file: its metadata comes before the vocabulary */
    HEAD_ARENA = 16 << 20,
};

/* What cannot be read is not known, which is no error; but files that nobody may read are one,
 * before a registration waits for them in vain. */
static lr_code read_sizes(const struct hub_client *client, struct hub_looked *l,
                          struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_buf head;
    struct model_gguf g;
    const struct hub_text *config = hub_listing_text(l->listing, "config.json");
    if (config != NULL)
        l->has_sizes[0] = model_size_of_config(config->text, &l->sizes[0], NULL) == LR_OK;
    const struct hub_candidate *last =
        l->candidates.count != 0 ? &l->candidates.list[l->candidates.count - 1] : NULL;
    if (last == NULL || last->format != HUB_FORMAT_GGUF)
        return LR_OK;
    lr_buf_init(&head, HEAD_BYTES);
    lr_arena_init(&arena, HEAD_ARENA);
    lr_code code = hub_list_head(client, l->listing, last->filename, &head, err);
    l->has_sizes[1] =
        code == LR_OK &&
        model_gguf_parse_front(&arena, head.data, head.len, "header", &g, NULL) == LR_OK &&
        model_size_of_gguf(&g, &l->sizes[1], NULL) == LR_OK;
    lr_arena_free(&arena);
    lr_buf_free(&head);
    return code == LR_PERMISSION_DENIED ? code : LR_OK;
}

lr_code hub_look(const struct hub_client *client, const char *repo, const char *revision,
                 struct hub_looked *out, uint32_t *retry_after_s, struct lr_error *err)
{
    static const char *const texts[] = {"config.json"};
    *out = (struct hub_looked){0};
    LR_COPY(out->found.repo, lr_str_z(repo));
    lr_code code = hub_list(client, repo, revision, &out->listing, retry_after_s, err);
    if (code == LR_OK)
        code = hub_list_fetch(client, out->listing, texts, 1, retry_after_s, err);
    if (code != LR_OK)
        return code;
    hub_candidates_find(out->listing, &out->candidates);
    return read_sizes(client, out, err);
}

void hub_looked_free(struct hub_looked *looked)
{
    hub_listing_destroy(looked->listing);
    looked->listing = NULL;
}

const struct model_size *hub_looked_size(const struct hub_looked *looked,
                                         const struct hub_candidate *candidate)
{
    bool is_gguf = candidate->format == HUB_FORMAT_GGUF;
    return looked->has_sizes[is_gguf] ? &looked->sizes[is_gguf] : NULL;
}

/* Every word occurs in the repository's name, so that a search for one family does not propose
 * another. */
static bool has_words(const char *repo, const char *words)
{
    struct lr_str rest = lr_str_z(words), word, name = lr_str_z(repo);
    while (lr_str_split(&rest, ' ', &word)) {
        bool found = false;
        for (size_t i = 0; i + word.len <= name.len && !found; i++)
            found = lr_str_eq_nocase(lr_str_sub(name, i, i + word.len), word);
        if (!found)
            return false;
    }
    return true;
}

lr_code hub_look_for(const struct hub_client *client, const struct hub_reference *named,
                     struct hub_found *out, struct lr_error *err)
{
    char words[HUB_WORDS_MAX], quant[HUB_QUANT_MAX];
    *out = (struct hub_found){0};
    if (named->kind == HUB_REFERENCE_REPO)
        hub_search_same(named->repo, words);
    else
        hub_search_words(named->text, words, quant);
    if (words[0] == '\0')
        return LR_OK;
    struct hub_query query = {.words = lr_str_z(words)};
    lr_code code = hub_search(client, &query, out, err);
    /* The most downloaded may all be of another format. */
    query.filter = "gguf";
    if (code == LR_OK)
        code = hub_search(client, &query, out, err);
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++)
        if (has_words(out->list[i].repo, words) &&
            !lr_str_eq_nocase(lr_str_z(out->list[i].repo), lr_str_z(named->repo)))
            out->list[kept++] = out->list[i];
    out->count = kept;
    return code;
}
