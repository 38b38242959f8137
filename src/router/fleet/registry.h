/* router/fleet/registry.h - the models that are registered, each with its tickets that wait.
 *
 * A registration is either "hub" (a manifest that nodes fetch) or "local" (the model lies
 * on a node already).  Ids keep their case and are compared without it.  A model may have
 * aliases: further names for clients that ask for a model of another vendor.  Nodes know only
 * ids.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_FLEET_REGISTRY_H
#define ROUTER_FLEET_REGISTRY_H

#include "base/sha256.h"
#include "router/figures/metrics.h"
#include "router/fleet/nodes.h"
#include "router/sched/counting.h"
#include "router/sched/sched.h"
#include "router/store/sql.h"

struct router_model {
    unsigned refs;
    char id[ROUTER_ID_MAX];
    char folded[ROUTER_ID_MAX];
    char source[8]; /* "hub", "local" */
    char format[16];
    char *manifest;                              /* owned; JSON, "" for a local one */
    char manifest_sha256[LR_SHA256_HEX_LEN + 1]; /* "" for a local one */
    char *chat_template;            /* owned; the registration's own, "" for the model's */
    char dialect[GRAMMAR_NAME_MAX]; /* the registration's own, "" for the template's */
    char *path;    /* owned; of a local one: where nodes look for it, "" by its id */
    char *aliases; /* owned; names with a space between two, "": none */
    int64_t created_ms;
    int64_t generation; /* of the registration; the highest is the newest.  0: not stored yet */
    bool is_deleted;
    bool is_stored; /* in the database: seen there, or our insert was committed */
    struct router_schedule schedule;
    struct router_counting counting;     /* of tokens */
    struct router_model_metrics metrics; /* atomics: no lock */
    /* Where the registration has a template or a dialect of its own: these with a node's
     * tokens. */
    struct router_prompt_info *own_info;        /* reference */
    const struct router_prompt_info *own_basis; /* whose tokens; only compared */
};

struct router_registry {
    struct lr_strmap models;  /* folded id -> struct router_model, one reference each */
    struct lr_strmap aliases; /* folded alias -> struct router_model, borrowed from models */
    uint64_t version;         /* changes with every registration: nodes ask again then */
};

void router_registry_init(struct router_registry *registry);
void router_registry_free(struct router_registry *registry);
LR_MUST_USE lr_code router_registry_load(struct router_registry *registry,
                                         struct router_sql *sql, struct lr_error *err);

/* A model id that may become part of a URL or a path: letters, digits and "-_.:/" with
 * at most one '/', no "..", 1 to 200 bytes.  INVALID_ARGUMENT says so. */
LR_MUST_USE lr_code router_check_model_id(struct lr_str id, struct lr_error *err);

struct router_new_model {
    struct lr_str id, source, format, manifest, chat_template, dialect, path, aliases;
    int64_t created_ms, generation;
};
/* CONFLICT, and what to do about it. */
lr_code router_fail_taken(struct lr_str id, struct lr_error *err);

/* The next of a model's aliases.  False: there are no more. */
bool router_alias_next(struct lr_str *aliases, struct lr_str *out);
/* CONFLICT where one of these aliases is the id or an alias of another model, or the id `own`
 * itself. */
LR_MUST_USE lr_code router_registry_check_aliases(const struct router_registry *registry,
                                                  struct lr_str own, struct lr_str aliases,
                                                  struct lr_error *err);
/* From now on these are the model's aliases; a name that another model has is left out.  False:
 * no memory. */
bool router_registry_set_aliases(struct router_registry *registry, struct router_model *model,
                                 struct lr_str aliases);

/* Makes a model and adds it.  CONFLICT when the id or an alias is taken. */
LR_MUST_USE lr_code router_registry_add(struct router_registry *registry,
                                        const struct router_new_model *model,
                                        struct router_model **out, struct lr_error *err);
/* Every model by a number from 0, borrowed; NULL: there are no more. */
struct router_model *router_registry_at(const struct router_registry *registry, size_t index);
/* By id.  Borrowed; NULL: none. */
struct router_model *router_registry_find(const struct router_registry *registry,
                                          struct lr_str id);
/* By id or alias, as clients name a model: also by a longer name that only Ollama's clients
 * write (chat_model_plain). */
struct router_model *router_registry_resolve(const struct router_registry *registry,
                                             struct lr_str name);
/* A model that was read into another registry: adds it, with a reference of its own.  False: no
 * memory. */
bool router_registry_put(struct router_registry *registry, struct router_model *model);
void router_registry_remove(struct router_registry *registry, struct router_model *model);

/* What renders this model's prompts, given what a node reported: borrowed.  NULL where the
 * registration's template cannot be compiled. */
struct router_prompt_info *router_model_info(struct router_model *model,
                                             struct router_prompt_infos *infos,
                                             struct router_prompt_info *reported);

struct router_model *router_model_ref(struct router_model *model);
void router_model_unref(struct router_model *model); /* NULL is fine */

/* *generation gets the number that the database gave the registration. */
LR_MUST_USE lr_code router_model_insert(struct router_sql *sql,
                                        const struct router_model *model, int64_t *generation,
                                        struct lr_error *err);
LR_MUST_USE lr_code router_model_delete(struct router_sql *sql, const char *folded,
                                        struct lr_error *err);
/* Replaces the aliases of a model.  CONFLICT: another model has one of them. */
LR_MUST_USE lr_code router_aliases_save(struct router_sql *sql, const char *folded,
                                        struct lr_str aliases, struct lr_error *err);

#endif
