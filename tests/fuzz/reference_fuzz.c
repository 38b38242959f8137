/* LINK: hub model base */
/* A name of a model as a person types it: its kind, repository, file, quantization. */
#include <stdint.h>
#include <stdlib.h>

#include "base/file.h"
#include "hub/quant.h"
#include "hub/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_within(struct lr_str part, struct lr_str whole)
{
    return part.len == 0 ||
           (part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len);
}

static void check_repo(const struct hub_policy *policy, const struct hub_reference *ref)
{
    char id[HUB_REFERENCE_NAME_MAX];
    struct hub_reference again;
    if (!hub_repo_valid(lr_str_z(ref->repo)) ||
        (ref->filename[0] != '\0' && !lr_path_safe(lr_str_z(ref->filename))))
        abort();
    hub_reference_name(ref, id);
    /* It is a name of the same model. */
    bool is_path = lr_str_ends(lr_str_z(id), ".gguf");
    if (!is_path && (hub_reference_read(policy, lr_str_z(id), &again, NULL) != LR_OK ||
                     (again.kind == HUB_REFERENCE_REPO && strcmp(again.repo, ref->repo) != 0)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hub_policy policy;
    struct hub_reference ref;
    struct lr_error err = {0};
    struct lr_str text = lr_str((const char *)data, size);
    if (hub_policy_init(&policy, "http://10.0.0.7:8080/hf", NULL, 0, NULL) != LR_OK)
        return 0;
    if (hub_reference_read(&policy, text, &ref, &err) != LR_OK) {
        if (err.text[0] == '\0')
            abort();
    } else if (ref.kind == HUB_REFERENCE_REPO) {
        check_repo(&policy, &ref);
    } else if (ref.text.len == 0 || !is_within(ref.text, text)) {
        abort();
    }
    struct lr_str label = hub_quant_of(text);
    if (!is_within(label, text) || (label.len != 0 && !hub_quant_is(label)))
        abort();
    return 0;
}
