/* hub/list.c - fetching a listing and small files from the hub. */
#include <stdio.h>

#include "base/sha256.h"
#include "hub/http.h"
#include "hub/listing.h"
#include "hub/search.h"

/* Collects a body in memory, up to the buffer's limit. */
static lr_code hub_list_keep(void *ctx, const void *bytes, size_t len, struct lr_error *err)
{
    struct lr_buf *body = ctx;
    lr_buf_add(body, bytes, len);
    return body->failed ? lr_fail(err, LR_TOO_LARGE,
                                  "an answer of the hub is larger than %zu bytes", body->limit)
                        : LR_OK;
}

/* GETs into body; an answer other than 2xx becomes an error. */
static lr_code hub_list_get(struct hub_http *http, const char *url, const char *what,
                            struct lr_buf *body, struct hub_reply *reply,
                            uint32_t *retry_after_s, struct lr_error *err)
{
    struct hub_call call = {
        .url = url, .total_ms = http->client->small_ms, .on_body = hub_list_keep, .ctx = body};
    lr_buf_clear(body);
    lr_code code = hub_http_get(http, &call, reply, err);
    if (retry_after_s != NULL)
        *retry_after_s = reply->retry_after_s;
    if (code == LR_OK && (reply->status < 200 || reply->status > 299))
        code = hub_http_fail(http->client, reply, what, err);
    return code;
}

static lr_code list_pages(struct hub_http *http, struct hub_listing *listing,
                          struct lr_buf *url, uint32_t *retry_after_s, struct lr_error *err)
{
    struct lr_buf body;
    struct hub_reply reply;
    char what[HUB_REPO_MAX];
    (void)snprintf(what, sizeof(what), "%s", listing->repo);
    lr_buf_init(&body, HUB_LISTING_BYTES_MAX);
    lr_code code = LR_OK;
    for (int page = 0; code == LR_OK; page++) {
        if (page == HUB_PAGES_MAX) {
            code = lr_fail(err, LR_UPSTREAM, "the listing of %s has more than %d pages", what,
                           HUB_PAGES_MAX);
            break;
        }
        code = hub_list_get(http, lr_buf_z(url), what, &body, &reply, retry_after_s, err);
        if (code == LR_OK)
            code = hub_listing_add_json(listing, lr_buf_str(&body), err);
        if (code != LR_OK || reply.next[0] == '\0')
            break;
        lr_buf_clear(url);
        lr_buf_add_z(url, reply.next);
    }
    lr_buf_free(&body);
    return code;
}

lr_code hub_list(const struct hub_client *client, const char *repo, const char *revision,
                 struct hub_listing **out, uint32_t *retry_after_s, struct lr_error *err)
{
    struct hub_http http;
    struct lr_buf url;
    *out = NULL;
    lr_code code = hub_http_open(&http, client, err);
    if (code != LR_OK)
        return code;
    struct hub_listing *listing = hub_listing_create(repo);
    lr_buf_init(&url, HUB_URL_MAX);
    lr_buf_addf(&url, "%s/api/models/", client->policy.endpoint);
    hub_url_escape(&url, lr_str_z(repo), true);
    if (revision != NULL && revision[0] != '\0') {
        lr_buf_add_z(&url, "/revision/");
        hub_url_escape(&url, lr_str_z(revision), false);
    }
    lr_buf_add_z(&url, "?blobs=true");
    if (listing == NULL || url.failed)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for the listing of %s", repo);
    else
        code = list_pages(&http, listing, &url, retry_after_s, err);
    lr_buf_free(&url);
    hub_http_close(&http);
    if (code != LR_OK) {
        hub_listing_destroy(listing);
        return code;
    }
    *out = listing;
    return LR_OK;
}

/* ---- search ---- */

lr_code hub_search(const struct hub_client *client, const struct hub_query *query,
                   struct hub_found *out, struct lr_error *err)
{
    struct hub_http http;
    struct hub_reply reply;
    struct lr_buf url, body;
    lr_code code = hub_http_open(&http, client, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&url, HUB_URL_MAX);
    lr_buf_init(&body, HUB_SEARCH_BYTES_MAX);
    lr_buf_addf(&url, "%s/api/models?search=", client->policy.endpoint);
    hub_url_escape(&url, query->words, false);
    if (query->filter != NULL)
        lr_buf_addf(&url, "&filter=%s", query->filter);
    lr_buf_addf(&url, "&sort=downloads&direction=-1&limit=%d", HUB_FOUND_PAGE);
    code = url.failed
               ? lr_fail(err, LR_INVALID_ARGUMENT, "the words to search for are too long")
               : hub_list_get(&http, lr_buf_z(&url), "the search", &body, &reply, NULL, err);
    if (code == LR_OK)
        code = hub_found_read(lr_buf_str(&body), out, err);
    lr_buf_free(&url);
    lr_buf_free(&body);
    hub_http_close(&http);
    return code;
}

/* ---- the beginning of a large file ---- */

/* Collects bytes up to the buffer's limit, and then ends the transfer. */
static lr_code keep_head(void *ctx, const void *bytes, size_t len, struct lr_error *err)
{
    struct lr_buf *head = ctx;
    size_t room = head->limit - head->len;
    lr_buf_add(head, bytes, len < room ? len : room);
    return head->len == head->limit ? lr_fail(err, LR_CANCELLED, "enough was read") : LR_OK;
}

lr_code hub_list_head(const struct hub_client *client, const struct hub_listing *listing,
                      struct lr_str name, struct lr_buf *head, struct lr_error *err)
{
    struct hub_http http;
    struct hub_reply reply;
    struct lr_buf url;
    lr_code code = hub_http_open(&http, client, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&url, HUB_URL_MAX);
    hub_url_resolve(&url, &client->policy, lr_str_z(listing->repo), lr_str_z(listing->commit),
                    name);
    struct hub_call call = {
        .url = lr_buf_z(&url), .total_ms = client->small_ms, .on_body = keep_head, .ctx = head};
    code = hub_http_get(&http, &call, &reply, err);
    if (code == LR_CANCELLED && head->len == head->limit)
        code = LR_OK;
    else if (code == LR_OK && (reply.status < 200 || reply.status > 299))
        code = hub_http_fail(client, &reply, listing->repo, err);
    lr_buf_free(&url);
    hub_http_close(&http);
    return code;
}

/* ---- small files ---- */

static lr_code hub_list_check(struct hub_listing *listing, struct hub_file *file,
                              struct lr_str text, struct lr_error *err)
{
    unsigned char digest[LR_SHA256_LEN];
    char hex[LR_SHA256_HEX_LEN + 1];
    if (file->has_size && file->size != text.len)
        return lr_fail(
            err, LR_UPSTREAM, "%.*s of %s has %zu bytes, the hub's listing says %llu",
            LR_STR_ARG(file->name), listing->repo, text.len, (unsigned long long)file->size);
    lr_sha256_of(text, digest);
    lr_sha256_hex(digest, hex);
    if (file->sha256[0] != '\0' && strcmp(file->sha256, hex) != 0)
        return lr_fail(err, LR_UPSTREAM,
                       "%.*s of %s is not what the hub's listing says (sha256)",
                       LR_STR_ARG(file->name), listing->repo);
    file->size = text.len;
    file->has_size = true;
    memcpy(file->sha256, hex, sizeof(hex));
    return LR_OK;
}

static lr_code fetch_one(struct hub_http *http, struct hub_listing *listing,
                         struct hub_file *file, struct lr_buf *body, uint32_t *retry_after_s,
                         struct lr_error *err)
{
    struct hub_reply reply;
    struct lr_buf url;
    char what[HUB_REPO_MAX + 300];
    if (file->has_size && file->size > HUB_SMALL_BYTES_MAX)
        return lr_fail(err, LR_TOO_LARGE, "%.*s of %s has %llu bytes; at most %d are read",
                       LR_STR_ARG(file->name), listing->repo, (unsigned long long)file->size,
                       HUB_SMALL_BYTES_MAX);
    (void)snprintf(what, sizeof(what), "%s/%.*s", listing->repo,
                   (int)(file->name.len < 256 ? file->name.len : 256), file->name.ptr);
    lr_buf_init(&url, HUB_URL_MAX);
    hub_url_resolve(&url, &http->client->policy, lr_str_z(listing->repo),
                    lr_str_z(listing->commit), file->name);
    lr_code code = hub_list_get(http, lr_buf_z(&url), what, body, &reply, retry_after_s, err);
    lr_buf_free(&url);
    if (code == LR_OK)
        code = hub_list_check(listing, file, lr_buf_str(body), err);
    if (code == LR_OK)
        code = hub_listing_add_text(listing, file->name, lr_buf_str(body), err);
    return code;
}

lr_code hub_list_fetch(const struct hub_client *client, struct hub_listing *listing,
                       const char *const *names, size_t count, uint32_t *retry_after_s,
                       struct lr_error *err)
{
    struct hub_http http;
    struct lr_buf body;
    lr_code code = hub_http_open(&http, client, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&body, HUB_SMALL_BYTES_MAX);
    for (size_t i = 0; i < count && code == LR_OK; i++) {
        const struct hub_file *found = hub_listing_find(listing, lr_str_z(names[i]));
        if (found != NULL && hub_listing_text(listing, names[i]) == NULL)
            code = fetch_one(&http, listing, &listing->files[found - listing->files], &body,
                             retry_after_s, err);
    }
    lr_buf_free(&body);
    hub_http_close(&http);
    return code;
}
