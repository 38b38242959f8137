/* node/fetch/purge.c - a model's files leave this machine (DELETE /v0/models/{id}?purge=true).
 *
 * Only a folder of this node's own models root is deleted, never a Hugging Face cache, a
 * folder the operator named, or what a link points at; and only while nobody uses the
 * model.  A worker that is idle is asked to leave first and a download is given up; the
 * answer comes when the files are gone.  Deleting is done beside the loop: unlinking
 * gigabytes takes a while, and other models must not pause for it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/os/file.h"
#include "node/fetch/fetch.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"
#include "node/workers/counter.h"

struct purge {
    uv_work_t work;
    struct node_storage *storage;
    struct node_model *model; /* is_purging: it stays until we forget it */
    struct net_request *req;
    struct node_watcher watcher; /* of the models: until nobody uses the files */
    char dir[LR_PATH_MAX];       /* real */
    char root[LR_PATH_MAX];      /* real */
    char incoming[LR_PATH_MAX];  /* a revision of it that was on its way */
    struct lr_error error;
};

static bool has_process(const struct node_model *m)
{
    return m->workers != NULL || m->probe != NULL || node_counter_has_process(m);
}

/* One folder may be registered under several names. */
static bool shares_folder(const struct node_model *a, const struct node_model *b)
{
    return a->descriptor != NULL && b->descriptor != NULL &&
           strcmp(a->descriptor->model_dir, b->descriptor->model_dir) == 0;
}

/* "org" may be a model's name and the folder of others'. */
static bool lies_below(const struct node_model *m, const char *id)
{
    size_t len = strlen(id);
    return strlen(m->id) > len && m->id[len] == '/' &&
           lr_str_eq_nocase(lr_str(m->id, len), lr_str_z(id));
}

static void purge_forget(struct node_model *model)
{
    for (struct node_model *o = model->models->first, *next; o != NULL; o = next) {
        next = o->next;
        if (o != model && shares_folder(o, model))
            node_storage_forget(o);
    }
    node_storage_forget(model);
}

static void purge_end(struct purge *p)
{
    bool is_gone = p->error.code == LR_OK;
    lr_log_info(NULL, "model.purge model=%s dir=%s reason=%s", p->model->id, p->dir,
                p->error.text);
    purge_forget(p->model);
    if (is_gone) {
        net_respond(p->req, 200, "application/json", LR_STR_LIT("{\"purged\":true}"));
    } else {
        node_storage_scan(p->storage); /* what is left is listed, with what it lacks */
        net_respond_error(p->req, &p->error);
    }
    free(p);
}

/* The folder as it really lies: strictly below the models root, and reached by no link. */
static lr_code find_folder(struct purge *p, struct lr_error *err)
{
    char expected[LR_PATH_MAX];
    const char *root = p->storage->root;
    const struct model_descriptor *d = p->model->descriptor;
    lr_code code = lr_path_join(expected, root, lr_str_z(p->model->id), err);
    if (code != LR_OK)
        return code;
    const char *where = d != NULL ? d->model_dir : expected;
    if (lr_realpath(where, p->dir) == NULL)
        return lr_fail_as(err, purge_none, p->model->id, root);
    size_t len = lr_realpath(root, p->root) != NULL ? strlen(p->root) : 0;
    bool is_below = len != 0 && strncmp(p->dir, p->root, len) == 0 && p->dir[len] == '/' &&
                    lr_str_eq_nocase(lr_str_z(p->dir + len + 1), lr_str_z(p->model->id));
    if (is_below)
        return LR_OK;
    return lr_fail_as(err, purge_foreign, p->model->id, p->dir, root);
}

static void remove_files(uv_work_t *work)
{
    struct purge *p = work->data;
    if (lr_dir_exists(p->incoming) && lr_dir_remove(p->incoming, &p->error) != LR_OK)
        return;
    if (lr_dir_remove(p->dir, &p->error) != LR_OK)
        return;
    /* "org" of org/name goes with its last model. */
    char *slash = strrchr(p->dir, '/');
    *slash = '\0';
    if (strcmp(p->dir, p->root) != 0)
        (void)lr_rmdir(p->dir);
    *slash = '/';
}

static void on_removed(uv_work_t *work, int status)
{
    struct purge *p = work->data;
    if (status != 0)
        (void)lr_fail(&p->error, LR_INTERNAL, "%s", uv_strerror(status));
    purge_end(p);
}

static void purge_look(void *arg)
{
    struct purge *p = arg;
    bool is_fetched = !node_fetch_stop(p->storage->fetch, p->model->id);
    node_counter_end(p->model);
    if (has_process(p->model) || is_fetched)
        return;
    node_changes_unwatch(&p->watcher);
    p->work.data = p;
    int status =
        uv_queue_work(net_loop_uv(p->model->models->loop), &p->work, remove_files, on_removed);
    if (status != 0)
        on_removed(&p->work, status);
}

static lr_code purge_check(const struct node_model *m, struct lr_error *err)
{
    if (m->models->is_draining)
        return lr_fail_plain(err, node_stops);
    if (m->is_purging)
        return lr_fail_as(err, purge_begun, m->id);
    if (node_model_leases(m) != 0 || m->state == NODE_MODEL_STARTING ||
        m->state == NODE_MODEL_LOADING || m->is_pinned)
        return m->is_pinned ? lr_fail_as(err, purge_pinned, m->id,
                                         node_model_state_name(m->state), node_model_leases(m))
                            : lr_fail_as(err, purge_busy, m->id,
                                         node_model_state_name(m->state), node_model_leases(m));
    for (const struct node_model *o = m->models->first; o != NULL; o = o->next) {
        if (lies_below(o, m->id))
            return lr_fail_as(err, purge_shared, m->id, o->id);
        if (o != m && shares_folder(o, m) && (has_process(o) || node_model_leases(o) != 0))
            return lr_fail_as(err, purge_other_busy, o->id);
    }
    return LR_OK;
}

lr_code node_storage_purge(struct node_model *m, struct net_request *req, struct lr_error *err)
{
    struct node_storage *storage = m->models->storage;
    lr_code code = purge_check(m, err);
    struct purge *p = code == LR_OK ? calloc(1, sizeof(*p)) : NULL;
    if (code == LR_OK && p == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory to delete a model");
    if (code == LR_OK) {
        *p = (struct purge){.storage = storage, .model = m, .req = req};
        code = find_folder(p, err);
    }
    if (code == LR_OK)
        code = node_storage_incoming(storage, m->id, p->incoming, err);
    if (code != LR_OK) {
        free(p);
        return code;
    }
    for (struct node_model *o = m->models->first; o != NULL; o = o->next)
        o->is_purging |= o == m || shares_folder(o, m);
    node_model_unload(m, "its files are deleted");
    p->watcher = (struct node_watcher){.fn = purge_look, .arg = p};
    node_changes_watch(m->models, &p->watcher);
    node_changed(m->models);
    return LR_OK;
}
