/* router/http/resolve.h - from what a person typed to a model, and whether it would run here.
 *
 * A name is a registered model, files that lie on a node, a repository of the hub, or words. Of
 * a repository the listing and the beginning of one file are read, the nodes say what they
 * could run, and one candidate is chosen (hub/candidates.h).  Where none runs, and for words,
 * the hub is searched, and the repositories that would run here are suggestions.  Nothing is
 * registered.
 *
 * Moves of a resolution:
 *   looking -> asking, searching, ended: the listing is there; only words; nothing to ask
 *   asking -> searching, ended: nothing runs; one was chosen
 *   searching -> weighing, ended: repositories were found; or none
 *   weighing -> ended: the nodes have said which of these run
 *   ended -> nothing
 *
 * Thread: the request's loop; `looking` and `searching` have a thread of their own, because
 * their calls block.
 */
#ifndef ROUTER_HTTP_RESOLVE_H
#define ROUTER_HTTP_RESOLVE_H

#include "hub/look.h"
#include "router/http/api.h"
#include "wire/fit.h"

enum { ROUTER_SUGGESTIONS_MAX = 3, ROUTER_LOOKED_MAX = 6, ROUTER_CONTEXT_USUAL = 32768 };

enum router_resolved_kind {
    ROUTER_NAME_MODEL,      /* registered: `id` */
    ROUTER_NAME_FOLDER,     /* on a node: `path` */
    ROUTER_NAME_REPOSITORY, /* of the hub */
    ROUTER_NAME_WORDS,
};

/* A repository that was looked at. */
struct router_looked {
    struct hub_looked at;
    const struct hub_candidate *best; /* NULL: nothing runs here */
    char why[HUB_WHY_MAX];
};

struct router_resolve_wish {
    struct lr_str name;
    enum hub_format format; /* NONE: any */
    struct lr_str filename, revision;
    uint64_t context, users; /* 0: the usual; 1 */
};

/* What a node said. */
struct router_fit {
    const char *id, *name;   /* of the node */
    struct lr_error problem; /* code OK: `answer` is there */
    struct wire_fit_answer *answer;
    double bytes_per_ms; /* that a model there read a step; 0: never measured */
};

struct router_resolution {
    struct router_resolve_wish wish;
    enum router_resolved_kind kind;
    char id[HUB_REFERENCE_NAME_MAX];    /* of the model; of a repository: what it would get */
    char alias[HUB_REFERENCE_NAME_MAX]; /* "org/name:QUANT", of a repository */
    struct lr_str path;
    struct hub_reference reference;
    /* Of a repository, the first of `looked`. */
    const struct hub_candidate *chosen; /* NULL: none; `reason` says why */
    struct lr_error reason;
    struct router_looked looked[ROUTER_LOOKED_MAX + 1]; /* the first: the repository itself */
    size_t looked_count;
    size_t first_suggestion; /* of `looked` */
    struct router_fit *fits; /* one of each online node, about `asked` */
    size_t fit_count;
    const struct wire_fit_question *asked;
    uint32_t retry_after_s;
};

/* told(arg, resolution, NULL), or with an error and NULL; once, perhaps before this returns,
 * and never where this fails.  The request waits for it. */
typedef void router_resolved_fn(void *arg, const struct router_resolution *resolution,
                                const struct lr_error *err);
LR_MUST_USE lr_code router_resolve(struct router *r, struct net_request *req,
                                   const struct router_resolve_wish *wish,
                                   router_resolved_fn *told, void *arg, struct lr_error *err);

/* The body of POST /v0/models/register for what was chosen, in the request's memory; NULL:
 * there is nothing to register. */
const struct lr_json *router_resolution_body(const struct router_resolution *resolution,
                                             struct net_request *req);
/* Why nothing can be registered, and what would run instead: one sentence for people. */
void router_resolution_refuse(const struct router_resolution *resolution, struct lr_error *err);

/* Tokens of one user that memory is planned for, and the bytes of a candidate with them; size
 * NULL: not known, the weights alone. */
uint64_t router_resolution_tokens(const struct router_resolution *resolution,
                                  const struct model_size *size);
uint64_t router_resolution_bytes(const struct router_resolution *resolution,
                                 const struct hub_candidate *candidate,
                                 const struct model_size *size);

#endif
