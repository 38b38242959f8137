/* hub/register.h - from "openai/gpt-oss-20b" to a manifest, in one call of the router.
 *
 * Lists the repository, reads its small files, looks at the publisher's artifact repositories,
 * and builds the manifest.  Never fetches weights.  Blocks: call it on a thread that may wait.
 */
#ifndef HUB_REGISTER_H
#define HUB_REGISTER_H

#include "hub/manifest.h"

struct hub_registration {
    struct hub_manifest *manifest; /* owned */
    struct hub_listing *listing;   /* owned: contains the small files */
    /* Borrowed from the two above. */
    struct lr_str chat_template;    /* text: chat_template.jinja, else tokenizer_config.json's;
                                       empty: none, the default applies */
    const char *chat_template_from; /* the file's name, or NULL */
    struct lr_str tokenizer_config; /* texts; empty where the repository has none */
    struct lr_str config;
    struct lr_str generation_config;
};

struct hub_register_input {
    const struct hub_client *client;
    const struct hub_supported *supported; /* may be NULL */
    const char *const *publishers;         /* NULL: hub_default_publishers */
    struct lr_str repo;                    /* "org/name" or an address */
    struct lr_str revision;                /* overrides the address's; empty: default */
    struct hub_request request;            /* an empty filename is replaced by the address's */
};

/* Codes: those of hub_list and hub_manifest_build.  retry_after_s may be NULL. */
LR_MUST_USE lr_code hub_register(const struct hub_register_input *in,
                                 struct hub_registration *out, uint32_t *retry_after_s,
                                 struct lr_error *err);
void hub_registration_free(struct hub_registration *registration);

#endif
