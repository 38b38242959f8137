/* hub/fetch.c - see hub/fetch.h.
 *
 * Failpoints name the stages; a kill between two of them must not leave wrong files:
 * download.note, .write, .received, .rename, .renamed, .sealed.
 */
#include "hub/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/settings.h"
#include "base/sha256.h"
#include "hub/note.h"

enum { HASH_CHUNK = 1 << 20 };

struct work {
    struct hub_fetch *f;
    struct hub_paths paths;
    struct hub_note note;
    struct lr_sha256 hash;
    int fd; /* the partial file */
    uint64_t done;
};

static void report(struct work *w, enum hub_file_state state)
{
    if (w->f->on_progress != NULL)
        w->f->on_progress(w->f->ctx, state, w->done);
}

static bool is_cancelled(const struct work *w)
{
    return w->f->cancel != NULL && atomic_load(w->f->cancel);
}

uint64_t hub_fetch_have(const char *dir, const struct hub_manifest_file *file)
{
    struct hub_paths paths;
    struct lr_stat info;
    if (hub_paths_make(&paths, dir, file->name, NULL) != LR_OK)
        return 0;
    if (lr_stat(paths.whole, &info) && info.size == file->size)
        return file->size;
    if (lr_stat(paths.part, &info) && info.size <= file->size)
        return info.size;
    return 0;
}

/* ---- hashing what is there ---- */

static lr_code hash_bytes(struct work *w, int fd, uint64_t len, const char *path,
                          struct lr_error *err)
{
    unsigned char *chunk = malloc(HASH_CHUNK);
    lr_code code = chunk != NULL ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory to hash");
    lr_sha256_init(&w->hash);
    w->done = 0;
    while (code == LR_OK && w->done < len) {
        uint64_t left = len - w->done;
        ssize_t got =
            pread(fd, chunk, left < HASH_CHUNK ? (size_t)left : HASH_CHUNK, (off_t)w->done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            code = got < 0 ? lr_fail_errno(err, LR_IO, "cannot read %.300s", path)
                           : lr_fail(err, LR_IO, "%.300s shrank while it was read", path);
        else if (is_cancelled(w))
            code = lr_fail(err, LR_CANCELLED, "cancelled");
        else {
            lr_sha256_add(&w->hash, chunk, (size_t)got);
            w->done += (uint64_t)got;
            report(w, HUB_FILE_CHECKING);
        }
    }
    free(chunk);
    return code;
}

/* Compares the digest with the manifest's; without one only the size is compared. */
static bool hash_fits(struct work *w)
{
    unsigned char digest[LR_SHA256_LEN];
    char hex[LR_SHA256_HEX_LEN + 1];
    if (w->f->file->sha256 == NULL)
        return true;
    lr_sha256_end(&w->hash, digest);
    lr_sha256_hex(digest, hex);
    return strcmp(hex, w->f->file->sha256) == 0;
}

/* A file under the final name is accepted if it matches the manifest and removed otherwise,
 * because a wrong file under a final name would be used. */
static lr_code take_whole(struct work *w, bool *taken, struct lr_error *err)
{
    const struct hub_manifest_file *file = w->f->file;
    struct lr_stat info;
    *taken = hub_note_proves(&w->paths, file);
    if (*taken || !lr_lstat(w->paths.whole, &info))
        return LR_OK;
    lr_code code = LR_OK;
    int fd = lr_open(w->paths.whole, LR_OPEN_READ, 0);
    if (fd >= 0 && lr_fstat(fd, &info) && info.kind == LR_KIND_FILE &&
        info.size == file->size) {
        code = hash_bytes(w, fd, file->size, w->paths.whole, err);
        *taken = code == LR_OK && hash_fits(w);
    }
    if (fd >= 0)
        (void)close(fd);
    if (code != LR_OK)
        return code;
    if (*taken)
        return hub_note_seal(&w->paths, file, err);
    lr_log_warn(NULL, "download.discard file=%s reason=%s", w->paths.whole,
                "its size or sha256 is not the manifest's");
    w->done = 0;
    if (!lr_unlink(w->paths.whole))
        return lr_fail_errno(err, LR_IO,
                             "%.300s is not what the manifest says and cannot be "
                             "removed",
                             w->paths.whole);
    return LR_OK;
}

/* ---- the partial file ---- */

static lr_code start_over(struct work *w, struct lr_error *err)
{
    lr_sha256_init(&w->hash);
    w->done = 0;
    if (ftruncate(w->fd, 0) != 0 || lseek(w->fd, 0, SEEK_SET) != 0)
        return lr_fail_errno(err, LR_IO, "cannot empty %.300s", w->paths.part);
    return LR_OK;
}

static lr_code open_part(struct work *w, struct lr_error *err)
{
    struct lr_stat info;
    bool known = hub_note_read(w->paths.note, &w->note) && hub_note_fits(&w->note, w->f->file);
    if (!known)
        hub_note_of(w->f->file, &w->note);
    w->note.verified_ns = 0;
    w->fd = lr_open(w->paths.part, LR_OPEN_READ_WRITE | LR_OPEN_CREATE | LR_OPEN_NO_LINK, 0644);
    if (w->fd < 0 || !lr_fstat(w->fd, &info))
        return lr_fail_errno(err, LR_IO, "cannot open %.300s", w->paths.part);
    uint64_t have = info.size;
    if (!known || have > w->f->file->size || have == 0)
        return start_over(w, err);
    lr_code code = hash_bytes(w, w->fd, have, w->paths.part, err);
    if (code == LR_OK && lseek(w->fd, (off_t)have, SEEK_SET) < 0)
        code = lr_fail_errno(err, LR_IO, "cannot seek in %.300s", w->paths.part);
    return code;
}

static lr_code fail_write(struct work *w, struct lr_error *err)
{
    uint64_t free_bytes = 0;
    char need[32], have[32];
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)
        return lr_fail_errno(err, LR_IO, "cannot write %.300s", w->paths.part);
    int saved = errno;
    (void)!lr_disk_free(w->f->dir, &free_bytes, NULL);
    lr_format_size(w->f->file->size - w->done, need);
    lr_format_size(free_bytes, have);
    errno = saved;
    return lr_fail_errno(
        err, LR_UNAVAILABLE,
        "disk full: %s still needs %s and %.200s has %s free; what was fetched "
        "is kept, make room and start again",
        w->f->file->name, need, w->f->dir, have);
}

/* ---- receiving ---- */

static lr_code on_head(void *ctx, const struct hub_reply *reply, struct lr_error *err)
{
    struct work *w = ctx;
    const struct hub_manifest_file *file = w->f->file;
    if (reply->status == 206) {
        bool same = w->note.etag[0] == '\0' || reply->etag[0] == '\0' ||
                    strcmp(w->note.etag, reply->etag) == 0;
        if (same && reply->has_range && reply->range_start == w->done &&
            reply->range_total == file->size)
            return LR_OK;
        lr_code code = start_over(w, err);
        return code != LR_OK
                   ? code
                   : lr_fail(err, LR_MODEL_CORRUPT,
                             "%s changed at the hub while it was fetched", file->name);
    }
    lr_code code = start_over(w, err); /* the server sends the whole file */
    if (code != LR_OK)
        return code;
    if (reply->has_length && reply->length != file->size)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s has %llu bytes at the hub, the manifest says "
                       "%llu",
                       file->name, (unsigned long long)reply->length,
                       (unsigned long long)file->size);
    (void)snprintf(w->note.etag, sizeof(w->note.etag), "%s", reply->etag);
    code = hub_note_write(w->paths.note, &w->note, err);
    LR_FAILPOINT("download.note");
    return code;
}

static lr_code hub_fetch_on_body(void *ctx, const void *bytes, size_t len, struct lr_error *err)
{
    struct work *w = ctx;
    const char *next = bytes;
    size_t left = len;
    if (len > w->f->file->size - w->done)
        return lr_fail(err, LR_MODEL_CORRUPT, "%s is longer at the hub than the manifest says",
                       w->f->file->name);
    if (LR_FAILPOINT("download.write")) {
        errno = ENOSPC;
        return fail_write(w, err);
    }
    while (left != 0) {
        ssize_t put = write(w->fd, next, left);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail_write(w, err);
        next += put;
        left -= (size_t)put;
    }
    lr_sha256_add(&w->hash, bytes, len);
    w->done += len;
    w->f->new_bytes += len;
    report(w, HUB_FILE_FETCHING);
    return LR_OK;
}

/* "org/name/FILE", as errors name it; a file of another place has its name alone. */
static void name_file(const struct hub_client *client, const struct hub_manifest_file *file,
                      char *out, size_t size)
{
    struct lr_str url = lr_str_z(file->url), endpoint = lr_str_z(client->policy.endpoint);
    size_t end = lr_str_find(url, LR_STR_LIT("/resolve/"));
    bool is_at_hub = end != LR_STR_NONE && lr_str_starts(url, client->policy.endpoint) &&
                     end > endpoint.len + 1;
    struct lr_str repo = is_at_hub ? lr_str_sub(url, endpoint.len + 1, end) : lr_str(NULL, 0);
    (void)snprintf(out, size, LR_STR_FMT "%s%s", LR_STR_ARG(repo), is_at_hub ? "/" : "",
                   file->name);
}

static lr_code receive(struct work *w, struct lr_error *err)
{
    const struct hub_manifest_file *file = w->f->file;
    struct hub_reply reply;
    /* A weak ETag must not be used in If-Range.  Then only the hash can verify a resumed file;
     * without a hash the download starts over. */
    bool is_strong = w->note.etag[0] == '"';
    lr_code code = LR_OK;
    if (w->done != 0 && !is_strong && file->sha256 == NULL)
        code = start_over(w, err);
    if (code != LR_OK)
        return code;
    struct hub_call call = {.url = file->url,
                            .offset = w->done,
                            .if_range = is_strong ? w->note.etag : NULL,
                            .cancel = w->f->cancel,
                            .on_head = on_head,
                            .on_body = hub_fetch_on_body,
                            .ctx = w};
    report(w, HUB_FILE_FETCHING);
    code = hub_http_get(w->f->http, &call, &reply, err);
    w->f->retry_after_s = reply.retry_after_s;
    if (code != LR_OK)
        return code;
    if (reply.status == 416) {
        code = start_over(w, err);
        return code != LR_OK ? code
                             : lr_fail(err, LR_MODEL_CORRUPT,
                                       "%s is shorter at the hub than what was fetched of it",
                                       file->name);
    }
    if (reply.status < 200 || reply.status > 299) {
        char what[HUB_REPO_MAX + LR_PATH_MAX];
        name_file(w->f->http->client, file, what, sizeof(what));
        code = hub_http_fail(w->f->http->client, &reply, what, err);
        /* A signed address has expired; the next attempt asks for a new one. */
        if (!reply.from_endpoint && code == LR_PERMISSION_DENIED)
            code = lr_fail(err, LR_UPSTREAM, "the storage behind the hub answered %d for %s",
                           reply.status, file->name);
        return code;
    }
    if (w->done < file->size)
        return lr_fail(err, LR_UPSTREAM, "the connection ended after %llu of %llu bytes of %s",
                       (unsigned long long)w->done, (unsigned long long)file->size, file->name);
    return LR_OK;
}

/* ---- a complete file ---- */

static lr_code hub_fetch_finish(struct work *w, struct lr_error *err)
{
    const struct hub_manifest_file *file = w->f->file;
    report(w, HUB_FILE_CHECKING);
    LR_FAILPOINT("download.received");
    if (!hash_fits(w)) {
        lr_code code = start_over(w, err);
        report(w, HUB_FILE_CHECKING);
        return code != LR_OK
                   ? code
                   : lr_fail(err, LR_MODEL_CORRUPT,
                             "%s arrived with another sha256 than the manifest's", file->name);
    }
    if (fsync(w->fd) != 0)
        return fail_write(w, err);
    LR_FAILPOINT("download.rename");
    lr_code code = lr_file_rename(w->paths.part, w->paths.whole, err);
    LR_FAILPOINT("download.renamed");
    if (code == LR_OK)
        code = hub_note_seal(&w->paths, file, err);
    LR_FAILPOINT("download.sealed");
    return code;
}

lr_code hub_fetch_file(struct hub_fetch *f, struct lr_error *err)
{
    struct lr_error local;
    struct work *w = calloc(1, sizeof(*w));
    bool taken = false;
    f->new_bytes = 0;
    f->retry_after_s = 0;
    err = err != NULL ? err : &local;
    if (w == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory to download");
    w->f = f;
    w->fd = -1;
    lr_code code = hub_paths_make(&w->paths, f->dir, f->file->name, err);
    if (code == LR_OK)
        code = hub_paths_create(&w->paths, err);
    if (code == LR_OK)
        code = take_whole(w, &taken, err);
    if (code == LR_OK && !taken) {
        code = open_part(w, err);
        if (code == LR_OK && w->done < f->file->size)
            code = receive(w, err);
        if (code == LR_OK)
            code = hub_fetch_finish(w, err);
    }
    struct lr_stat info;
    if (w->fd >= 0 && code != LR_OK && lr_fstat(w->fd, &info) && info.size == 0)
        (void)lr_unlink(w->paths.part); /* the partial file is useless */
    if (w->fd >= 0)
        (void)close(w->fd);
    free(w);
    return code;
}
