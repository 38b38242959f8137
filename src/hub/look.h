/* hub/look.h - a repository before anything of it is registered: its models and their sizes.
 *
 * Reads the listing, config.json and the first bytes of one GGUF file; never weights.  Blocks:
 * call it on a thread that may wait.
 */
#ifndef HUB_LOOK_H
#define HUB_LOOK_H

#include "hub/candidates.h"
#include "hub/search.h"
#include "model/size.h"

struct hub_looked {
    struct hub_found_repo found; /* without a search: its name alone */
    struct hub_listing *listing; /* owned */
    struct hub_candidates candidates;
    struct model_size sizes[2]; /* of its safetensors, of its GGUF models */
    bool has_sizes[2];
};

/* Codes as hub_list.  *out is always to be freed. */
LR_MUST_USE lr_code hub_look(const struct hub_client *client, const char *repo,
                             const char *revision, struct hub_looked *out,
                             uint32_t *retry_after_s, struct lr_error *err);
void hub_looked_free(struct hub_looked *looked);

/* The sizes of a candidate; NULL: not known. */
const struct model_size *hub_looked_size(const struct hub_looked *looked,
                                         const struct hub_candidate *candidate);

/* Searches for what a person names: by words all repositories of that name; by a repository
 * those with other encodings of its model.  The most downloaded first, in a few pages for any
 * format and for GGUF. */
LR_MUST_USE lr_code hub_look_for(const struct hub_client *client,
                                 const struct hub_reference *named, struct hub_found *out,
                                 struct lr_error *err);

#endif
