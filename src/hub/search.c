#include "hub/search.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "hub/quant.h"

enum { SEARCH_ARENA_MAX = 128 << 20, SEARCH_DEPTH = 16 };

/* ---- the answer ---- */

static bool search_has_tag(const struct lr_json *entry, const char *tag)
{
    const struct lr_json *tags = lr_json_get(entry, "tags");
    struct lr_str text;
    for (uint32_t i = 0; lr_json_is(tags, LR_JSON_ARRAY) && i < tags->count; i++)
        if (lr_json_str(&tags->items[i], &text) && lr_str_eq_z(text, tag))
            return true;
    return false;
}

static bool read_found(const struct lr_json *entry, struct hub_found_repo *out)
{
    const struct lr_json *gated = lr_json_get(entry, "gated");
    struct lr_str id;
    bool is_gated = false;
    *out = (struct hub_found_repo){0};
    if ((!lr_json_str(lr_json_get(entry, "id"), &id) &&
         !lr_json_str(lr_json_get(entry, "modelId"), &id)) ||
        !hub_repo_valid(id) || id.len >= sizeof(out->repo))
        return false;
    LR_COPY(out->repo, id);
    (void)lr_json_u64(lr_json_get(entry, "downloads"), &out->downloads);
    (void)lr_json_u64(lr_json_get(entry, "likes"), &out->likes);
    out->is_gated =
        lr_json_is(gated, LR_JSON_STRING) || (lr_json_bool(gated, &is_gated) && is_gated);
    out->has_gguf = search_has_tag(entry, "gguf");
    out->has_safetensors = search_has_tag(entry, "safetensors");
    return true;
}

static bool search_is_known(const struct hub_found *found, const char *repo)
{
    for (size_t i = 0; i < found->count; i++)
        if (lr_str_eq_nocase(lr_str_z(found->list[i].repo), lr_str_z(repo)))
            return true;
    return false;
}

static int more_downloads_first(const void *left, const void *right)
{
    const struct hub_found_repo *a = left, *b = right;
    if (a->downloads != b->downloads)
        return a->downloads > b->downloads ? -1 : 1;
    return strcmp(a->repo, b->repo);
}

lr_code hub_found_read(struct lr_str json, struct hub_found *out, struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json_limits limits = {.max_depth = SEARCH_DEPTH,
                                          .max_bytes = HUB_SEARCH_BYTES_MAX};
    const struct lr_json *list;
    struct hub_found_repo repo;
    struct lr_error why;
    lr_arena_init(&arena, SEARCH_ARENA_MAX);
    lr_code code = lr_json_parse(&arena, json, &limits, &list, &why);
    if (code != LR_OK)
        code = lr_fail(err, LR_UPSTREAM, "the hub's answer to a search cannot be parsed: %s",
                       why.text);
    else if (!lr_json_is(list, LR_JSON_ARRAY))
        code = lr_fail(err, LR_UPSTREAM, "the hub's answer to a search is no list");
    for (uint32_t i = 0; code == LR_OK && i < list->count && out->count < HUB_FOUND_MAX; i++)
        if (read_found(&list->items[i], &repo) && !search_is_known(out, repo.repo))
            out->list[out->count++] = repo;
    lr_arena_free(&arena);
    if (out->count != 0)
        qsort(out->list, out->count, sizeof(out->list[0]), more_downloads_first);
    return code;
}

/* ---- the words ---- */

static void add_word(char out[HUB_WORDS_MAX], size_t *len, struct lr_str word)
{
    if (word.len == 0 || *len + word.len + 2 > HUB_WORDS_MAX)
        return;
    if (*len != 0)
        out[(*len)++] = ' ';
    memcpy(out + *len, word.ptr, word.len);
    *len += word.len;
    out[*len] = '\0';
}

/* "llama3.2" -> "llama", "3.2"; "qwen2.5" -> "qwen2.5": the hub's repositories write both
 * "Llama-3.2" and "Qwen2.5", so only the family that has a hyphen there is parted. */
static void add_parted(char out[HUB_WORDS_MAX], size_t *len, struct lr_str word)
{
    static const char *const hyphened[] = {"llama", "gemma", "phi", "granite", "mistral"};
    for (size_t i = 0; i < sizeof(hyphened) / sizeof(hyphened[0]); i++) {
        size_t n = strlen(hyphened[i]);
        if (word.len > n && lr_str_eq_nocase(lr_str_sub(word, 0, n), lr_str(hyphened[i], n)) &&
            isdigit((unsigned char)word.ptr[n])) {
            add_word(out, len, lr_str_sub(word, 0, n));
            add_word(out, len, lr_str_sub(word, n, word.len));
            return;
        }
    }
    add_word(out, len, word);
}

/* "8b-instruct-q4_K_M": a size, a variant and a quantization. */
static void add_pieces(char out[HUB_WORDS_MAX], size_t *len, struct lr_str tag, char *quant)
{
    struct lr_str piece;
    while (lr_str_split(&tag, '-', &piece)) {
        if (hub_quant_is(piece))
            lr_str_copy(quant, HUB_QUANT_MAX, piece);
        else
            add_word(out, len, piece);
    }
}

void hub_search_words(struct lr_str name, char out[HUB_WORDS_MAX], char quant[HUB_QUANT_MAX])
{
    size_t len = 0;
    struct lr_str word, tag;
    out[0] = quant[0] = '\0';
    while (lr_str_split(&name, ' ', &word)) {
        size_t colon = lr_str_find_char(word, ':');
        tag = colon != LR_STR_NONE ? lr_str_sub(word, colon + 1, word.len) : lr_str(NULL, 0);
        if (colon != LR_STR_NONE)
            word = lr_str_sub(word, 0, colon);
        add_parted(out, &len, word);
        add_pieces(out, &len, tag, quant);
    }
}

void hub_search_same(const char *repo, char out[HUB_WORDS_MAX])
{
    static const char *const ends[] = {"-GGUF", "-gguf",      "-AWQ",  "-GPTQ",
                                       "-FP8",  "-bf16",      "-mlx",  "-4bit",
                                       "-8bit", "-GPTQ-Int4", "-NVFP4"};
    struct lr_str name = lr_str_z(repo);
    size_t slash = lr_str_find_char(name, '/');
    name = slash != LR_STR_NONE ? lr_str_sub(name, slash + 1, name.len) : name;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (lr_str_ends(name, ends[i]))
            name = lr_str_sub(name, 0, name.len - strlen(ends[i]));
    lr_str_copy(out, HUB_WORDS_MAX, name);
}
