/* LINK: hub model base */
/* Input from a hub or a router: manifests, listings with their small files, addresses.  The
 * first byte selects; parts of a registration are separated by byte 1. */
#include <stdint.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "hub/manifest.h"
#include "hub/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_manifest(const struct hub_manifest *m)
{
    struct hub_manifest *again;
    struct lr_buf first, second;
    lr_buf_init(&first, 64 << 20);
    lr_buf_init(&second, 64 << 20);
    hub_manifest_encode(m, &first);
    if (first.failed || hub_manifest_decode(lr_buf_str(&first), &again, NULL) != LR_OK)
        abort(); /* our own output must be readable */
    hub_manifest_encode(again, &second);
    if (!lr_str_eq(lr_buf_str(&first), lr_buf_str(&second)))
        abort();
    for (size_t i = 0; i < m->file_count; i++) {
        if (!lr_path_safe(lr_str_z(m->files[i].name)))
            abort();
    }
    hub_manifest_destroy(again);
    lr_buf_free(&first);
    lr_buf_free(&second);
}

static void try_manifest(struct lr_str text)
{
    struct hub_manifest *m;
    struct lr_error err = {0};
    if (hub_manifest_decode(text, &m, &err) == LR_OK)
        check_manifest(m);
    else if (err.text[0] == '\0')
        abort();
    hub_manifest_destroy(m);
}

static void try_registration(struct lr_str text, const struct hub_policy *policy)
{
    struct lr_str page = {0}, config = {0}, index = {0};
    struct hub_listing *listing = hub_listing_create("openai/fuzz");
    struct hub_manifest *m = NULL;
    struct lr_error err = {0};
    (void)lr_str_split(&text, 1, &page);
    (void)lr_str_split(&text, 1, &config);
    (void)lr_str_split(&text, 1, &index);
    struct hub_request request = {.filename = text};
    struct hub_build_input in = {.policy = policy, .listing = listing};
    if (listing == NULL)
        return;
    if (hub_listing_add_json(listing, page, NULL) == LR_OK) {
        if (hub_listing_add_text(listing, LR_STR_LIT("config.json"), config, NULL) != LR_OK ||
            hub_listing_add_text(listing, LR_STR_LIT("model.safetensors.index.json"), index,
                                 NULL) != LR_OK)
            abort();
        if (hub_manifest_build(&in, &request, &m, &err) == LR_OK)
            check_manifest(m);
        else if (err.text[0] == '\0')
            abort();
    }
    hub_manifest_destroy(m);
    hub_listing_destroy(listing);
}

static void try_address(struct lr_str text, const struct hub_policy *policy)
{
    struct hub_reference ref;
    bool is_named;
    if (hub_reference_parse(policy, text, &ref, NULL) == LR_OK &&
        (!hub_repo_valid(lr_str_z(ref.repo)) ||
         (ref.filename[0] != '\0' && !lr_path_safe(lr_str_z(ref.filename)))))
        abort();
    if (hub_policy_check(policy, text, &is_named, NULL) == LR_OK &&
        (!lr_str_starts(text, "h") && !lr_str_starts(text, "H")))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hub_policy policy;
    const char *host = "cdn.example.com";
    lr_log_set(LR_LOG_ERROR, LR_LOG_TEXT);
    if (size == 0 || hub_policy_init(&policy, "http://10.0.0.7:8080", &host, 1, NULL) != LR_OK)
        return 0;
    struct lr_str text = lr_str((const char *)data + 1, size - 1);
    if (data[0] == 'm')
        try_manifest(text);
    else if (data[0] == 'r')
        try_registration(text, &policy);
    else
        try_address(text, &policy);
    return 0;
}
