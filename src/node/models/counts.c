/* node/models/counts.c - see counts.h. */
#include "node/models/counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/os/file.h"
#include "node/models/models.h"

enum { FILE_BYTES = 1 << 20 };

struct node_count {
    struct node_count *next;
    char *id;
    uint32_t count;
};

static struct node_count *counts_find(const struct node_counts *counts, struct lr_str id)
{
    struct node_count *c = counts->first;
    while (c != NULL && !lr_str_eq_nocase(lr_str_z(c->id), id))
        c = c->next;
    return c;
}

static struct node_count *counts_add(struct node_counts *counts, struct lr_str id,
                                     uint32_t count)
{
    struct node_count *c = net_alloc(sizeof(*c));
    c->id = net_alloc(id.len + 1);
    memcpy(c->id, id.ptr, id.len);
    c->id[id.len] = '\0';
    c->count = count;
    c->next = counts->first;
    counts->first = c;
    return c;
}

static lr_code counts_read_file(struct node_counts *counts, struct lr_arena *arena,
                                struct lr_error *err)
{
    struct lr_str bytes;
    const struct lr_json *all;
    lr_code code = lr_file_read(arena, counts->file, FILE_BYTES, &bytes, err);
    if (code == LR_OK)
        code = lr_json_parse(arena, bytes, NULL, &all, err);
    if (code == LR_OK && all->type != LR_JSON_OBJECT)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "no JSON object");
    for (uint32_t i = 0; code == LR_OK && i < all->count; i++) {
        struct lr_str text;
        uint32_t count;
        if (!lr_json_str(&all->members[i].value, &text))
            code = lr_fail(err, LR_INVALID_ARGUMENT, "a number of replicas is no string");
        else
            code = node_replicas_parse(text, &count, err);
        if (code == LR_OK && counts_find(counts, all->members[i].key) == NULL)
            (void)counts_add(counts, all->members[i].key, count);
    }
    return code;
}

void node_counts_open(struct node_counts *counts, const char *data_dir)
{
    struct lr_error err;
    struct lr_arena arena;
    struct lr_stat st;
    *counts = (struct node_counts){0};
    if (lr_path_join(counts->file, data_dir, LR_STR_LIT("replicas.json"), &err) != LR_OK) {
        counts->file[0] = '\0';
        return;
    }
    if (!lr_stat(counts->file, &st))
        return;
    lr_arena_init(&arena, 4 * FILE_BYTES);
    if (counts_read_file(counts, &arena, &err) != LR_OK) {
        node_counts_close(counts);
        lr_log_warn(LR_LOG_OF(&err),
                    "node.replicas_not_read file=%s reason=%s (set the numbers again)",
                    counts->file, err.text);
    }
    lr_arena_free(&arena);
}

void node_counts_close(struct node_counts *counts)
{
    while (counts->first != NULL) {
        struct node_count *c = counts->first;
        counts->first = c->next;
        free(c->id);
        free(c);
    }
}

void node_counts_recall(const struct node_counts *counts, struct node_model *model)
{
    const struct node_count *c = counts_find(counts, lr_str_z(model->id));
    if (c == NULL)
        return;
    model->has_own_replicas = true;
    model->own_replicas = c->count;
}

static lr_code write_file(const struct node_counts *counts, struct lr_error *err)
{
    struct lr_buf text;
    struct lr_json_writer w;
    if (counts->file[0] == '\0')
        return LR_OK;
    lr_buf_init(&text, FILE_BYTES);
    lr_json_writer_init(&w, &text);
    lr_json_begin_object(&w);
    for (const struct node_count *c = counts->first; c != NULL; c = c->next) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%u", c->count);
        lr_json_member_z(&w, c->id, c->count == NODE_REPLICAS_AUTO ? "auto" : number);
    }
    lr_json_end_object(&w);
    lr_code code =
        text.failed ? lr_fail(err, LR_OUT_OF_RAM, "more models than %d bytes hold", FILE_BYTES)
                    : lr_file_write_atomic(counts->file, lr_buf_str(&text), 0600, err);
    lr_buf_free(&text);
    return code;
}

lr_code node_counts_set(struct node_counts *counts, struct node_model *model, uint32_t count,
                        struct lr_error *err)
{
    struct node_count *c = counts_find(counts, lr_str_z(model->id));
    const bool is_new = c == NULL;
    if (is_new)
        c = counts_add(counts, lr_str_z(model->id), count);
    const uint32_t before = c->count;
    c->count = count;
    if (write_file(counts, err) != LR_OK) {
        c->count = before;
        if (is_new) {
            counts->first = c->next;
            free(c->id);
            free(c);
        }
        err->code = LR_INTERNAL;
        return lr_fail_prefix(err, "the number of replicas was not kept");
    }
    node_counts_recall(counts, model);
    return LR_OK;
}
