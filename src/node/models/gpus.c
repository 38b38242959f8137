#include "node/models/gpus.h"

#include <string.h>

#include "base/str.h"

static bool starts(const char *uuid, struct lr_str word)
{
    /* Less than "GPU-1" would mean every GPU. */
    return word.len > 4 && lr_str_eq(lr_str_sub(lr_str_z(uuid), 0, word.len), word);
}

static bool gpus_is_named(const struct node_gpu *gpu, struct lr_str word)
{
    uint64_t number;
    if (lr_str_u64(word, &number))
        return number == gpu->number;
    return starts(gpu->uuid, word) || starts(gpu->whole_uuid, word);
}

/* The next word of a list with commas; false: there is none. */
static bool next_word(struct lr_str *rest, struct lr_str *word)
{
    if (rest->len == 0)
        return false;
    size_t comma = lr_str_find_char(*rest, ',');
    size_t end = comma != LR_STR_NONE ? comma : rest->len;
    *word = lr_str_trim(lr_str_sub(*rest, 0, end));
    *rest = lr_str_sub(*rest, end + (comma != LR_STR_NONE), rest->len);
    return true;
}

void node_gpus_show(struct node_gpu *gpus, size_t count, const char *visible)
{
    struct lr_str rest = lr_str_z(visible != NULL ? visible : ""), word;
    bool is_found = true;
    for (size_t i = 0; i < count; i++)
        gpus[i].copies = visible == NULL;
    while (is_found && next_word(&rest, &word)) {
        is_found = false;
        for (size_t i = 0; i < count; i++)
            if (gpus_is_named(&gpus[i], word)) {
                gpus[i].copies = 1;
                is_found = true;
            }
    }
}

lr_code node_gpus_take(struct node_gpu *gpus, size_t count, const char *wanted,
                       struct lr_error *err)
{
    struct lr_str rest = lr_str_z(wanted != NULL ? wanted : ""), word;
    if (wanted == NULL)
        return LR_OK;
    bool was_shown[NODE_GPUS_MAX];
    for (size_t i = 0; i < count && i < NODE_GPUS_MAX; i++) {
        was_shown[i] = gpus[i].copies != 0;
        gpus[i].copies = 0;
    }
    while (next_word(&rest, &word)) {
        bool is_found = false;
        for (size_t i = 0; i < count && i < NODE_GPUS_MAX; i++)
            if (was_shown[i] && gpus_is_named(&gpus[i], word)) {
                gpus[i].copies++;
                is_found = true;
            }
        if (!is_found)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "setting gpus names \"" LR_STR_FMT
                           "\", which is no GPU that this process sees: nvidia-smi -L lists "
                           "them, and CUDA_VISIBLE_DEVICES may hide some",
                           LR_STR_ARG(lr_str_sub(word, 0, 60)));
    }
    return LR_OK;
}
