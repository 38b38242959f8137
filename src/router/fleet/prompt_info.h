/* router/fleet/prompt_info.h - what is needed to render a model's prompts: its compiled
 * template and special tokens.
 *
 * Immutable and shared: nodes that report the same template share one.
 * Thread: get, ref and unref with the router's lock held; reading from any.
 */
#ifndef ROUTER_FLEET_PROMPT_INFO_H
#define ROUTER_FLEET_PROMPT_INFO_H

#include "base/sha256.h"
#include "chat/prompt.h"
#include "wire/fleet.h"

struct router_prompt_info {
    struct router_prompt_info *next; /* in the router's list */
    unsigned refs;
    unsigned char hash[LR_SHA256_LEN];
    struct jinja_template *tmpl; /* owned */
    struct lr_arena texts;
    struct lr_str source; /* of the template; empty: the default */
    struct chat_model chat;
};

struct router_prompt_infos {
    struct router_prompt_info *first;
};

/* A reference.  A template that cannot be compiled gives its error, once per report.  dialect:
 * an operator's choice; empty: what the template shows, without a template the node's word. */
LR_MUST_USE lr_code router_prompt_info_get(struct router_prompt_infos *infos,
                                           const struct wire_fleet_model *report,
                                           struct lr_str dialect,
                                           struct router_prompt_info **out,
                                           struct lr_error *err);
struct router_prompt_info *router_prompt_info_ref(struct router_prompt_info *info);
void router_prompt_info_unref(struct router_prompt_infos *infos,
                              struct router_prompt_info *info); /* NULL is fine */

/* Everything that is left, also where references remain. */
void router_prompt_infos_free(struct router_prompt_infos *infos);

#endif
