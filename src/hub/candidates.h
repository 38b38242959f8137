/* hub/candidates.h - the models that a repository holds, and which of them is taken.
 *
 * A candidate is the safetensors of a repository, or one GGUF model: a file, or the first file
 * of a set (-00001-of-00005).  The caller says of each whether an engine runs it and whether it
 * fits.  Pure.  Thread: any.
 */
#ifndef HUB_CANDIDATES_H
#define HUB_CANDIDATES_H

#include "hub/manifest.h"
#include "hub/reference.h"

enum { HUB_CANDIDATES_MAX = 64 };

enum hub_verdict {
    HUB_NO_ENGINE, /* nothing in the fleet runs it */
    HUB_TOO_LARGE, /* an engine runs it, and no node has the memory */
    HUB_FITS,
};

struct hub_candidate {
    enum hub_format format;
    struct lr_str filename; /* of a GGUF model; empty for safetensors.  Borrowed */
    struct lr_str label;    /* its quantization; empty: not known.  Borrowed */
    uint64_t bytes;         /* of its weights */
    enum hub_verdict verdict;
};

struct hub_candidates {
    struct hub_candidate list[HUB_CANDIDATES_MAX]; /* safetensors, then the better first */
    size_t count;
};

/* Strings are borrowed from the listing.  Files beside a model (projectors, imatrix, drafts)
 * and sets that are not whole are left out. */
void hub_candidates_find(const struct hub_listing *listing, struct hub_candidates *out);

enum { HUB_WHY_MAX = 300 };

/* The candidate that is taken, and in *why the reason, for people: the wanted format, file and
 * quantization (empty: any); else safetensors that fit; else the best GGUF that fits; else
 * Q4_K_M, which no node can hold yet.  NOT_FOUND: none is as wanted; the error lists what there
 * is.  UNSUPPORTED: no engine runs any; the error is for people, too. */
LR_MUST_USE lr_code hub_candidates_choose(const struct hub_candidates *all,
                                          enum hub_format format,
                                          const struct hub_reference *wanted,
                                          const struct hub_candidate **out,
                                          char why[HUB_WHY_MAX], struct lr_error *err);

#endif
