/* hub/download_start.c - starting a download, or joining a running one. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/settings.h"
#include "hub/downloads.h"
#include "hub/note.h"

static lr_code copy_manifest(const struct hub_manifest *from, struct hub_manifest **out,
                             struct lr_error *err)
{
    struct lr_buf text;
    lr_buf_init(&text, HUB_MANIFEST_BYTES_MAX);
    hub_manifest_encode(from, &text);
    lr_code code = text.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory to copy a manifest")
                               : hub_manifest_decode(lr_buf_str(&text), out, err);
    lr_buf_free(&text);
    return code;
}

static int by_priority(const void *a, const void *b)
{
    const struct hub_manifest_file *x = ((const struct hub_job *)a)->file,
                                   *y = ((const struct hub_job *)b)->file;
    if (x->priority != y->priority)
        return x->priority > y->priority ? -1 : 1;
    return strcmp(x->name, y->name);
}

static lr_code make_jobs(struct hub_download *d, const struct hub_filter *filter,
                         struct lr_error *err)
{
    d->jobs = calloc(d->manifest->file_count, sizeof(*d->jobs));
    if (d->jobs == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a download");
    for (size_t i = 0; i < d->manifest->file_count; i++) {
        const struct hub_manifest_file *file = &d->manifest->files[i];
        if (!hub_manifest_file_wanted(d->manifest, file, filter))
            continue;
        d->jobs[d->job_count].download = d;
        d->jobs[d->job_count].file = file;
        d->job_count++;
    }
    if (d->job_count == 0)
        return lr_fail(err, LR_UNSUPPORTED, "%s: none of its files is for this node",
                       d->manifest->id);
    qsort(d->jobs, d->job_count, sizeof(*d->jobs), by_priority);
    return LR_OK;
}

static lr_code check_space(struct hub_downloads *all, struct hub_download *d,
                           struct lr_error *err)
{
    uint64_t need = 0, have;
    for (size_t i = 0; i < d->job_count; i++) {
        d->jobs[i].done = hub_fetch_have(d->dir, d->jobs[i].file);
        need += d->jobs[i].file->size - d->jobs[i].done;
    }
    lr_code code = lr_disk_free(d->dir, &have, err);
    if (code != LR_OK || need == 0 || have >= need + all->options.disk_reserve)
        return code;
    char needs[32], free_text[32], reserve[32];
    lr_format_size(need, needs);
    lr_format_size(have, free_text);
    lr_format_size(all->options.disk_reserve, reserve);
    return lr_fail(
        err, LR_UNAVAILABLE,
        "%s needs %s more (%llu bytes) in %.200s, where %s are free (%llu bytes, %s of "
        "them are left alone)",
        d->manifest->id, needs, (unsigned long long)need, d->dir, free_text,
        (unsigned long long)have, reserve);
}

static lr_code prepare(struct hub_downloads *all, struct hub_download *d,
                       const struct hub_manifest *manifest, const struct hub_filter *filter,
                       struct lr_error *err)
{
    char path[LR_PATH_MAX];
    lr_code code = hub_manifest_wanted(manifest, filter, err);
    if (code == LR_OK)
        code = copy_manifest(manifest, &d->manifest, err);
    if (code == LR_OK)
        code = make_jobs(d, filter, err);
    if (code == LR_OK)
        code = lr_path_join(path, d->dir, LR_STR_LIT(".download"), err);
    if (code == LR_OK)
        code = lr_dir_create(path, err);
    if (code == LR_OK)
        code = lr_path_join(path, d->dir, LR_STR_LIT(".download/lock"), err);
    if (code == LR_OK)
        code = lr_file_lock(path, &d->file_lock, err);
    if (code == LR_OK)
        code = check_space(all, d, err);
    return code;
}

static bool add_listener(struct hub_download *d, hub_download_fn fn, void *arg)
{
    struct hub_listener *listener = fn != NULL ? malloc(sizeof(*listener)) : NULL;
    if (listener == NULL)
        return fn == NULL;
    *listener = (struct hub_listener){NULL, fn, arg};
    (void)pthread_mutex_lock(&d->notify_lock);
    listener->next = d->listeners;
    d->listeners = listener;
    (void)pthread_mutex_unlock(&d->notify_lock);
    return true;
}

static bool same_files(const struct hub_manifest *a, const struct hub_manifest *b)
{
    return strcmp(a->revision, b->revision) == 0 && strcmp(a->repo, b->repo) == 0 &&
           a->file_count == b->file_count;
}

/* A cancelled download holds its folder until its threads have stopped. */
static void wait_for_cancelled(struct hub_downloads *all, const char *dir)
{
    struct hub_download *d = all->list;
    while (d != NULL) {
        bool is_leaving = strcmp(d->dir, dir) == 0 && atomic_load(&d->cancel);
        if (is_leaving)
            (void)pthread_cond_wait(&hub_ended, &hub_lock);
        d = is_leaving ? all->list : d->next;
    }
}

/* With the lock held: the download of that folder, with one more reference. */
static lr_code download_join(struct hub_downloads *all, const struct hub_manifest *manifest,
                             const char *dir, struct hub_download **out, struct lr_error *err)
{
    *out = NULL;
    for (struct hub_download *d = all->list; d != NULL; d = d->next) {
        if (strcmp(d->dir, dir) != 0)
            continue;
        if (!same_files(d->manifest, manifest))
            return lr_fail(
                err, LR_CONFLICT,
                "%s is being downloaded into %.200s at another revision: cancel that "
                "first",
                d->manifest->id, dir);
        *out = hub_download_ref_locked(d);
        return LR_OK;
    }
    return LR_OK;
}

static struct hub_download *new_download(const char *dir)
{
    struct hub_download *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return NULL;
    d->refs = 1;
    d->file_lock.fd = -1;
    (void)snprintf(d->dir, sizeof(d->dir), "%s", dir);
    (void)pthread_mutex_init(&d->notify_lock, NULL);
    return d;
}

/* The lock is held, so that two starts for one folder cannot both prepare it. */
static lr_code start_locked(struct hub_downloads *all, const struct hub_manifest *manifest,
                            const char *dir, const struct hub_filter *filter,
                            struct hub_download **out, struct lr_error *err)
{
    wait_for_cancelled(all, dir);
    lr_code code = download_join(all, manifest, dir, out, err);
    if (code != LR_OK || *out != NULL)
        return code;
    struct hub_download *d = new_download(dir);
    if (d == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a download");
    code = prepare(all, d, manifest, filter, err);
    if (code != LR_OK) {
        hub_download_free(d);
        return code;
    }
    d->owner = all;
    struct hub_download **end = &all->list;
    while (*end != NULL)
        end = &(*end)->next;
    *end = hub_download_ref_locked(d);
    *out = d;
    lr_log_info(NULL, "download.start model=%s files=%zu dir=%s", d->manifest->id, d->job_count,
                dir);
    return LR_OK;
}

lr_code hub_download_start(struct hub_downloads *downloads, const struct hub_manifest *manifest,
                           const char *dir, const struct hub_filter *filter,
                           hub_download_fn on_change, void *arg, struct hub_download **out,
                           struct lr_error *err)
{
    char path[LR_PATH_MAX];
    *out = NULL;
    lr_code code = lr_dir_create(dir, err);
    if (code != LR_OK)
        return code;
    if (lr_realpath(dir, path) == NULL) /* canonical, so that a folder has only one name */
        return lr_fail_errno(err, LR_IO, "cannot resolve %.300s", dir);
    (void)pthread_mutex_lock(&hub_lock);
    code = start_locked(downloads, manifest, path, filter, out, err);
    (void)pthread_mutex_unlock(&hub_lock);
    if (code != LR_OK)
        return code;
    bool is_heard = add_listener(*out, on_change, arg);
    (void)pthread_mutex_lock(&hub_lock);
    if (!is_heard) {
        hub_download_unref_locked(*out);
        *out = NULL;
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for a download");
    }
    (void)pthread_cond_broadcast(&hub_work);
    (void)pthread_mutex_unlock(&hub_lock);
    return code;
}

bool hub_download_is_whole(const struct hub_manifest *manifest, const char *dir,
                           const struct hub_filter *filter)
{
    for (size_t i = 0; i < manifest->file_count; i++) {
        const struct hub_manifest_file *file = &manifest->files[i];
        struct hub_paths paths;
        struct lr_error err;
        if (file->optional || !hub_manifest_file_wanted(manifest, file, filter))
            continue;
        if (hub_paths_make(&paths, dir, file->name, &err) != LR_OK ||
            !hub_note_proves(&paths, file))
            return false;
    }
    return true;
}
