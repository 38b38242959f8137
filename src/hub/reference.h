/* hub/reference.h - a model as a person writes it.
 *
 * The only reader of such names: every command, Ollama's API and the dashboard use it.
 *
 *   a repository   org/name, hf.co/org/name, https://huggingface.co/org/name[/...]; behind it
 *                  ":Q4_K_M" or "@Q4_K_M" for a quantization, "/file.gguf" for a file, and
 *                  ":latest", which means nothing
 *   a path         /x, ./x, ../x, ~/x, C:\x, or a file that ends in .gguf and names no
 *                  repository
 *   words          anything else: a model's id, an alias, a name of Ollama's library
 *                  (qwen3:8b), words to search for
 *
 * Pure.  Thread: any.
 */
#ifndef HUB_REFERENCE_H
#define HUB_REFERENCE_H

#include "hub/url.h"

enum hub_reference_kind { HUB_REFERENCE_REPO, HUB_REFERENCE_PATH, HUB_REFERENCE_WORDS };

enum {
    HUB_REVISION_MAX = 256,
    HUB_QUANT_MAX = 64,
    HUB_FILENAME_MAX = 512,
    HUB_REFERENCE_NAME_MAX = HUB_REPO_MAX + HUB_QUANT_MAX,
};

struct hub_reference {
    enum hub_reference_kind kind;
    /* Of a repository; "" where not given. */
    char repo[HUB_REPO_MAX];         /* "org/name", case kept */
    char revision[HUB_REVISION_MAX]; /* branch, tag or commit */
    char filename[HUB_FILENAME_MAX]; /* below the repository's folder */
    char quant[HUB_QUANT_MAX];       /* "Q4_K_M" */
    /* Of a path and of words: the text, trimmed, of words without ":latest".  Borrowed. */
    struct lr_str text;
};

/* INVALID_ARGUMENT: the text is empty, has control characters, or looks like an address or a
 * repository and is none. */
LR_MUST_USE lr_code hub_reference_read(const struct hub_policy *policy, struct lr_str text,
                                       struct hub_reference *out, struct lr_error *err);

/* The same where only a repository will do: anything else is INVALID_ARGUMENT, too. */
LR_MUST_USE lr_code hub_reference_parse(const struct hub_policy *policy, struct lr_str text,
                                        struct hub_reference *out, struct lr_error *err);

/* How a person names the model of a repository: "org/name", or "org/name:QUANT" where a
 * quantization or a GGUF file is asked for; a file that names no quantization stands with its
 * own name. */
void hub_reference_name(const struct hub_reference *ref, char out[HUB_REFERENCE_NAME_MAX]);
/* The id of that model, "org/name-QUANT": a folder on a node is called so, and a folder has no
 * colon on every system. */
void hub_reference_id(const struct hub_reference *ref, char out[HUB_REFERENCE_NAME_MAX]);

/* "org/name" of letters, digits, '-', '_', '.', at most 96 bytes each, no "..". */
bool hub_repo_valid(struct lr_str repo);
/* The part before '/'. */
struct lr_str hub_repo_owner(struct lr_str repo);

#endif
