/* hub/search.h - repositories by words, from the hub's public search API.
 *
 * The answer is text of another machine: its size is bounded, entries without a valid name are
 * left out.  hub_search blocks: call it on a thread that may wait; the rest is pure.
 */
#ifndef HUB_SEARCH_H
#define HUB_SEARCH_H

#include "base/json.h"
#include "hub/client.h"
#include "hub/reference.h"

enum {
    HUB_FOUND_MAX = 60,
    HUB_FOUND_PAGE = 30,
    HUB_SEARCH_BYTES_MAX = 4 << 20,
    HUB_WORDS_MAX = 200
};

struct hub_found_repo {
    char repo[HUB_REPO_MAX];
    uint64_t downloads; /* of the last month */
    uint64_t likes;
    bool is_gated;
    bool has_gguf, has_safetensors; /* by its tags */
};

struct hub_found {
    struct hub_found_repo list[HUB_FOUND_MAX]; /* most downloaded first, none twice */
    size_t count;
};

struct hub_query {
    struct lr_str words;
    const char *filter; /* "gguf"; NULL: none */
};

/* Codes as hub_list; INVALID_ARGUMENT: the words are too long. */
LR_MUST_USE lr_code hub_search(const struct hub_client *client, const struct hub_query *query,
                               struct hub_found *out, struct lr_error *err);

/* Adds the entries of an answer.  UPSTREAM: malformed. */
LR_MUST_USE lr_code hub_found_read(struct lr_str json, struct hub_found *out,
                                   struct lr_error *err);

/* What to search for where a person names a model: "qwen3:8b" -> "qwen3 8b", "llama3.2" ->
 * "llama 3.2".  A quantization is left out, and goes to quant ("" for none). */
void hub_search_words(struct lr_str name, char out[HUB_WORDS_MAX], char quant[HUB_QUANT_MAX]);

/* The name of a repository's model without owner, format and quantization: what repositories
 * with other encodings of the model are called after. */
void hub_search_same(const char *repo, char out[HUB_WORDS_MAX]);

#endif
