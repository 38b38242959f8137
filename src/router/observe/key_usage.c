#include "router/observe/key_usage.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/metrics.h"

void router_key_usages_init(struct router_key_usages *usages)
{
    lr_strmap_init(&usages->by_pair);
    (void)snprintf(usages->other.model, sizeof(usages->other.model), "other");
}

void router_key_usages_free(struct router_key_usages *usages)
{
    struct lr_str pair;
    void *usage;
    for (size_t i = 0; lr_strmap_at(&usages->by_pair, i, &pair, &usage); i++)
        free(usage);
    lr_strmap_free(&usages->by_pair);
}

/* The row of a key and a model; the common one where the table is full or there is no memory.
 */
static struct router_key_usage *key_usage_find(struct router_key_usages *usages,
                                               const struct router_key *key, const char *model)
{
    char pair[200];
    (void)snprintf(pair, sizeof(pair), "%s %s", key != NULL ? key->id : "", model);
    struct router_key_usage *usage = lr_strmap_get(&usages->by_pair, lr_str_z(pair));
    if (usage != NULL)
        return usage;
    if (usages->by_pair.count >= ROUTER_KEY_USAGES_MAX ||
        (usage = calloc(1, sizeof(*usage))) == NULL)
        return &usages->other;
    usage->key = key;
    (void)snprintf(usage->model, sizeof(usage->model), "%s", model);
    if (lr_strmap_put(&usages->by_pair, lr_str_z(pair), usage, NULL))
        return usage;
    free(usage);
    return &usages->other;
}

void router_key_usages_add(struct router_key_usages *usages, const struct router_key *key,
                           const struct router_usage *row)
{
    struct router_key_usage *usage = key_usage_find(usages, key, row->model);
    usage->requests++;
    usage->prompt_tokens += row->prompt_tokens;
    usage->completion_tokens += row->completion_tokens;
    usage->cached_tokens += row->cached_tokens;
}

struct router_key_usage_row *router_key_usages_copy(const struct router_key_usages *usages,
                                                    size_t *count)
{
    struct router_key_usage_row *rows = calloc(usages->by_pair.count + 1, sizeof(*rows));
    struct lr_str pair;
    void *usage;
    *count = 0;
    if (rows == NULL)
        return NULL;
    for (size_t i = 0; lr_strmap_at(&usages->by_pair, i, &pair, &usage); i++) {
        struct router_key_usage_row *row = &rows[(*count)++];
        row->sums = *(const struct router_key_usage *)usage;
        const struct router_key *key = row->sums.key;
        (void)snprintf(row->key, sizeof(row->key), "%s", key != NULL ? key->id : "none");
        (void)snprintf(row->name, sizeof(row->name), "%s", key != NULL ? key->name : "");
    }
    if (usages->other.requests != 0) {
        rows[*count].sums = usages->other;
        (void)snprintf(rows[(*count)++].key, sizeof(rows->key), "other");
    }
    return rows;
}

void router_key_usages_write(struct lr_buf *out, const struct router_key_usage_row *rows,
                             size_t count)
{
    static const struct {
        const char *name, *help;
        size_t offset; /* of an uint64_t in struct router_key_usage */
    } metrics[] = {
        {"key_requests_total", "Requests that ended, by key and model",
         offsetof(struct router_key_usage, requests)},
        {"key_prompt_tokens_total", "Prompt tokens, by key and model",
         offsetof(struct router_key_usage, prompt_tokens)},
        {"key_completion_tokens_total", "Generated tokens, by key and model",
         offsetof(struct router_key_usage, completion_tokens)},
        {"key_cached_tokens_total", "Prompt tokens found in a cache, by key and model",
         offsetof(struct router_key_usage, cached_tokens)},
    };
    for (size_t k = 0; k < sizeof(metrics) / sizeof(metrics[0]); k++) {
        lr_metric_head(out, "llm_router_", metrics[k].name, "counter", metrics[k].help);
        for (size_t i = 0; i < count; i++) {
            const char *sums = (const char *)&rows[i].sums;
            lr_buf_addf(out, "llm_router_%s{", metrics[k].name);
            lr_metric_label(out, "key", rows[i].key);
            lr_buf_add_char(out, ',');
            lr_metric_label(out, "name", rows[i].name);
            lr_buf_add_char(out, ',');
            lr_metric_label(out, "model", rows[i].sums.model);
            lr_buf_addf(out, "} %llu\n",
                        (unsigned long long)*(
                            const uint64_t *)(const void *)(sums + metrics[k].offset));
        }
    }
}
