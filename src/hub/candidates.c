#include "hub/candidates.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/settings.h"
#include "hub/build.h"
#include "hub/quant.h"
#include "model/gguf.h"

/* ---- what a repository holds ---- */

/* The bytes of a set whose first part this is; false: a part is missing, or this is a later
 * part. */
static bool set_bytes(const struct hub_listing *listing, const struct hub_file *first,
                      const struct hub_shard *shard, uint64_t *bytes)
{
    char name[1024];
    *bytes = 0;
    if (shard->number != 1 || shard->total > HUB_MANIFEST_FILES_MAX)
        return false;
    for (uint64_t i = 1; i <= shard->total; i++) {
        (void)snprintf(name, sizeof(name), "%.*s-%05u-of-%05u.gguf", LR_STR_ARG(shard->stem),
                       (unsigned)i, (unsigned)shard->total);
        const struct hub_file *part =
            i == 1 ? first : hub_listing_find(listing, lr_str_z(name));
        if (part == NULL || part->size > HUB_FILE_SIZE_MAX)
            return false;
        *bytes += part->size;
    }
    return true;
}

static bool read_gguf(const struct hub_listing *listing, const struct hub_file *file,
                      struct hub_candidate *out)
{
    struct hub_shard shard;
    *out = (struct hub_candidate){.format = HUB_FORMAT_GGUF, .filename = file->name};
    if (!model_gguf_is_main(file->name) || file->size > HUB_FILE_SIZE_MAX)
        return false;
    out->bytes = file->size;
    if (hub_build_shard(file->name, ".gguf", &shard)) {
        out->label = hub_quant_of(shard.stem);
        return shard.total <= 1 || set_bytes(listing, file, &shard, &out->bytes);
    }
    out->label = hub_quant_of(lr_str_sub(file->name, 0, file->name.len - strlen(".gguf")));
    return true;
}

/* The weights in the root; "consolidated" files are the same weights once more. */
static uint64_t safetensors_bytes(const struct hub_listing *listing, bool *has)
{
    uint64_t bytes = 0, twice = 0;
    for (size_t i = 0; i < listing->file_count; i++) {
        const struct hub_file *f = &listing->files[i];
        if (!hub_build_is_root(f->name) || !lr_str_ends(f->name, ".safetensors") ||
            f->size > HUB_FILE_SIZE_MAX)
            continue;
        *has = true;
        *(lr_str_starts(f->name, "consolidated") ? &twice : &bytes) += f->size;
    }
    return bytes != 0 ? bytes : twice;
}

static size_t depth_of(struct lr_str name)
{
    size_t depth = 0;
    for (size_t i = 0; i < name.len; i++)
        depth += name.ptr[i] == '/';
    return depth;
}

static int better_first(const void *left, const void *right)
{
    const struct hub_candidate *a = left, *b = right;
    if (a->format != b->format)
        return a->format == HUB_FORMAT_SAFETENSORS ? -1 : 1;
    unsigned rank_a = hub_quant_rank(a->label), rank_b = hub_quant_rank(b->label);
    if (rank_a != rank_b)
        return rank_a < rank_b ? -1 : 1;
    size_t depth_a = depth_of(a->filename), depth_b = depth_of(b->filename);
    return depth_a != depth_b ? (depth_a < depth_b ? -1 : 1)
                              : lr_str_cmp(a->filename, b->filename);
}

void hub_candidates_find(const struct hub_listing *listing, struct hub_candidates *out)
{
    bool has = false;
    *out = (struct hub_candidates){0};
    uint64_t bytes = safetensors_bytes(listing, &has);
    if (has)
        out->list[out->count++] =
            (struct hub_candidate){.format = HUB_FORMAT_SAFETENSORS, .bytes = bytes};
    for (size_t i = 0; i < listing->file_count && out->count < HUB_CANDIDATES_MAX; i++)
        if (lr_str_ends(listing->files[i].name, ".gguf") &&
            read_gguf(listing, &listing->files[i], &out->list[out->count]))
            out->count++;
    if (out->count != 0)
        qsort(out->list, out->count, sizeof(out->list[0]), better_first);
}

/* ---- which is taken ---- */

static void candidates_put_name(struct lr_buf *out, const struct hub_candidate *c)
{
    char size[32];
    lr_format_size(c->bytes, size);
    if (c->format == HUB_FORMAT_SAFETENSORS)
        lr_buf_addf(out, "safetensors (%s)", size);
    else
        lr_buf_addf(out, LR_STR_FMT " (%s)", LR_STR_ARG(c->filename), size);
}

static lr_code fail_wanted(const struct hub_candidates *all, const struct hub_reference *wanted,
                           struct lr_error *err)
{
    enum { LISTED = 12 };
    struct lr_buf names;
    lr_buf_init(&names, 4096);
    for (size_t i = 0; i < all->count && i < LISTED; i++) {
        lr_buf_add_z(&names, i != 0 ? ", " : "");
        candidates_put_name(&names, &all->list[i]);
    }
    if (all->count > LISTED)
        lr_buf_addf(&names, " and %zu more", all->count - LISTED);
    const char *what = wanted->filename[0] != '\0' ? wanted->filename : wanted->quant;
    lr_code code =
        lr_fail(err, LR_NOT_FOUND, "%s holds no model \"%s\"%s%s", wanted->repo, what,
                all->count != 0 ? "; it has " : ", nor another one", lr_buf_z(&names));
    lr_buf_free(&names);
    return code;
}

static bool is_wanted(const struct hub_candidate *c, enum hub_format format,
                      const struct hub_reference *wanted)
{
    if (format != HUB_FORMAT_NONE && c->format != format)
        return false;
    if (wanted->filename[0] != '\0')
        return c->format == HUB_FORMAT_SAFETENSORS
                   ? !lr_str_ends(lr_str_z(wanted->filename), ".gguf")
                   : lr_str_eq_z(c->filename, wanted->filename);
    return wanted->quant[0] == '\0' || hub_quant_matches(c->label, lr_str_z(wanted->quant));
}

/* A later part of a set, or a file beside a model, that a person names is taken as it is. */
static bool names_other_part(const struct hub_reference *wanted)
{
    struct hub_shard shard;
    return hub_build_shard(lr_str_z(wanted->filename), ".gguf", &shard) && shard.number > 1;
}

static const char *reason_of(const struct hub_candidate *c, bool is_named)
{
    if (is_named)
        return "as asked for";
    if (c->verdict == HUB_TOO_LARGE)
        return "no node has the memory for it with a context of 32768 tokens";
    return c->format == HUB_FORMAT_SAFETENSORS
               ? "an engine here runs the original weights, and they fit"
               : "the best quantization that fits here with a context of 32768 tokens";
}

/* The first that fits; else, of those that an engine runs, Q4_K_M or the last. */
static const struct hub_candidate *best_of(const struct hub_candidates *all,
                                           enum hub_format format,
                                           const struct hub_reference *wanted, bool *has_any)
{
    const struct hub_candidate *usual = NULL, *runs = NULL, *first = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const struct hub_candidate *c = &all->list[i];
        if (!is_wanted(c, format, wanted))
            continue;
        first = first != NULL ? first : c;
        if (c->verdict == HUB_FITS)
            return c;
        if (c->verdict == HUB_TOO_LARGE && c->format == HUB_FORMAT_GGUF && usual == NULL &&
            hub_quant_matches(c->label, LR_STR_LIT(HUB_QUANT_USUAL)))
            usual = c;
        if (c->verdict == HUB_TOO_LARGE && (runs == NULL || c->bytes < runs->bytes))
            runs = c;
    }
    *has_any = first != NULL;
    return usual != NULL ? usual : runs;
}

lr_code hub_candidates_choose(const struct hub_candidates *all, enum hub_format format,
                              const struct hub_reference *wanted,
                              const struct hub_candidate **out, char why[HUB_WHY_MAX],
                              struct lr_error *err)
{
    bool has_any = true;
    bool is_named = wanted->filename[0] != '\0' || wanted->quant[0] != '\0';
    *out = NULL;
    if (wanted->filename[0] != '\0' && names_other_part(wanted))
        return lr_fail(
            err, LR_NOT_FOUND,
            "%s is a part of a set: name its first part, or the quantization (%s:%.*s)",
            wanted->filename, wanted->repo,
            LR_STR_ARG(hub_quant_of(lr_str_z(wanted->filename))));
    *out = best_of(all, format, wanted, &has_any);
    if (*out != NULL) {
        (void)snprintf(why, HUB_WHY_MAX, "%s", reason_of(*out, is_named));
        return LR_OK;
    }
    if (!has_any && (is_named || all->count == 0))
        return is_named ? fail_wanted(all, wanted, err)
                        : lr_fail(err, LR_NOT_FOUND,
                                  "%s holds neither .safetensors files nor .gguf files",
                                  wanted->repo);
    return lr_fail(err, LR_UNSUPPORTED, "no engine here runs %s", wanted->repo);
}
