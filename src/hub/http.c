/* hub/http.c - see hub/http.h. */
#include "hub/http.h"

#include <stdio.h>
#include <strings.h>

#include "base/os/socket.h"

enum { MOST_HOPS = 8, BUFFER_BYTES = 256 << 10 };

/* One hop of one call: what the callbacks need. */
struct hop {
    struct hub_http *http;
    const struct hub_call *call;
    struct hub_reply *reply;
    struct lr_error *err;
    lr_code code; /* error of a callback */
    bool is_named, has_proxy, head_given, address_refused;
};

lr_code hub_http_open(struct hub_http *http, const struct hub_client *client,
                      struct lr_error *err)
{
    memset(http, 0, sizeof(*http));
    http->client = client;
    if (client->is_offline)
        return lr_fail(err, LR_UNAVAILABLE,
                       "HF_HUB_OFFLINE is set: nothing is asked of %s; a model whose files are "
                       "here can be registered with --path",
                       client->policy.endpoint);
    lr_code code = hub_curl_load(&http->curl, err);
    if (code != LR_OK)
        return code;
    http->easy = http->curl->easy_init();
    return http->easy != NULL ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory for libcurl");
}

void hub_http_close(struct hub_http *http)
{
    if (http->easy != NULL)
        http->curl->easy_cleanup(http->easy);
    http->easy = NULL;
}

/* ---- headers ---- */

static void copy_text(char *out, size_t cap, struct lr_str text)
{
    size_t len =
        text.len < cap ? text.len : 0; /* a truncated value would mean something else */
    memcpy(out, text.ptr, len);
    out[len] = '\0';
}

/* "bytes 100-199/200" */
static void read_range(struct hub_reply *reply, struct lr_str value)
{
    struct lr_str start, rest = value, total;
    if (!lr_str_starts(value, "bytes "))
        return;
    rest = lr_str_sub(value, 6, value.len);
    if (!lr_str_split(&rest, '-', &start) || !lr_str_split(&rest, '/', &total))
        return;
    reply->has_range = lr_str_u64(start, &reply->range_start) &&
                       lr_str_u64(lr_str_trim(rest), &reply->range_total);
}

/* <https://...>; rel="next" */
static void read_link(struct hub_reply *reply, struct lr_str value)
{
    struct lr_str part;
    while (lr_str_split(&value, ',', &part)) {
        size_t open = lr_str_find_char(part, '<'), close = lr_str_find_char(part, '>');
        if (open == LR_STR_NONE || close == LR_STR_NONE || close < open)
            continue;
        struct lr_str rest = lr_str_sub(part, close, part.len);
        if (lr_str_find(rest, LR_STR_LIT("rel=\"next\"")) != LR_STR_NONE)
            copy_text(reply->next, sizeof(reply->next), lr_str_sub(part, open + 1, close));
    }
}

static size_t on_header(char *bytes, size_t size, size_t count, void *arg)
{
    struct hop *hop = arg;
    struct hub_reply *reply = hop->reply;
    struct lr_str value = lr_str(bytes, size * count), name;
    if (lr_str_starts(value, "HTTP/")) {
        memset(reply, 0,
               sizeof(*reply)); /* drops the headers of a proxy or of a 1xx answer before */
        return size * count;
    }
    if (!lr_str_split(&value, ':', &name))
        return size * count;
    value = lr_str_trim(value);
    if (lr_str_eq_nocase(name, LR_STR_LIT("etag")))
        copy_text(reply->etag, sizeof(reply->etag), value);
    else if (lr_str_eq_nocase(name, LR_STR_LIT("content-length")))
        reply->has_length = lr_str_u64(value, &reply->length);
    else if (lr_str_eq_nocase(name, LR_STR_LIT("content-range")))
        read_range(reply, value);
    else if (lr_str_eq_nocase(name, LR_STR_LIT("x-error-code")))
        copy_text(reply->error_code, sizeof(reply->error_code), value);
    else if (lr_str_eq_nocase(name, LR_STR_LIT("link")))
        read_link(reply, value);
    return size * count;
}

/* ---- body ---- */

static int status_of(const struct hop *hop)
{
    long status = 0;
    (void)hop->http->curl->getinfo(hop->http->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static bool give_head(struct hop *hop)
{
    if (hop->head_given)
        return true;
    hop->head_given = true;
    if (hop->call->on_head != NULL)
        hop->code = hop->call->on_head(hop->call->ctx, hop->reply, hop->err);
    return hop->code == LR_OK;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct hop *hop = arg;
    size_t len = size * count;
    if (hop->reply->status == 0)
        hop->reply->status = status_of(hop);
    if (hop->reply->status < 200 || hop->reply->status > 299)
        return len;
    if (!give_head(hop))
        return 0;
    hop->code = hop->call->on_body(hop->call->ctx, bytes, len, hop->err);
    return hop->code == LR_OK ? len : 0;
}

static int hub_http_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c,
                                curl_off_t d)
{
    const struct hop *hop = arg;
    (void)a, (void)b, (void)c, (void)d;
    return hop->call->cancel != NULL && atomic_load(hop->call->cancel) ? 1 : 0;
}

/* The name was allowed; its address must be allowed too.  A name of the hub's domains that
 * resolves to this machine or its network is an attack or a broken resolver. */
static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct hop *hop = arg;
    (void)purpose;
    if (!hop->is_named && !hop->has_proxy && !hub_address_is_public(&address->addr)) {
        hop->address_refused = true;
        return CURL_SOCKET_BAD;
    }
    return (curl_socket_t)lr_socket(address->family, address->socktype, address->protocol);
}

/* ---- one hop ---- */

static struct curl_slist *make_headers(struct hub_http *http, const struct hub_call *call,
                                       const char *url)
{
    char line[512];
    struct curl_slist *list = http->curl->slist_append(NULL, "Accept: */*");
    if (call->offset != 0) {
        (void)snprintf(line, sizeof(line), "Range: bytes=%llu-",
                       (unsigned long long)call->offset);
        list = http->curl->slist_append(list, line);
        if (call->if_range != NULL) {
            (void)snprintf(line, sizeof(line), "If-Range: %s", call->if_range);
            list = http->curl->slist_append(list, line);
        }
    }
    if (http->client->token[0] != '\0' &&
        hub_policy_is_endpoint(&http->client->policy, lr_str_z(url))) {
        (void)snprintf(line, sizeof(line), "Authorization: Bearer %s", http->client->token);
        list = http->curl->slist_append(list, line);
    }
    return list;
}

static void set_options(struct hub_http *http, struct hop *hop, const char *url,
                        struct curl_slist *headers, const char *proxy, char *error_text)
{
    const struct hub_curl *c = http->curl;
    const struct hub_client *client = http->client;
    CURL *e = http->easy;
    c->easy_reset(e); /* keeps the connections */
    (void)c->setopt(e, CURLOPT_URL, url);
    (void)c->setopt(e, CURLOPT_HTTPHEADER, headers);
    (void)c->setopt(e, CURLOPT_USERAGENT, client->user_agent);
    (void)c->setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)c->setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)c->setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)c->setopt(e, CURLOPT_NETRC, 0L);
    (void)c->setopt(e, CURLOPT_PROXY, proxy != NULL ? proxy : "");
    (void)c->setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)client->connect_ms);
    (void)c->setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)c->setopt(e, CURLOPT_LOW_SPEED_TIME, ((long)client->stall_ms + 999) / 1000);
    (void)c->setopt(e, CURLOPT_TIMEOUT_MS, (long)hop->call->total_ms);
    (void)c->setopt(e, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    (void)c->setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)c->setopt(e, CURLOPT_ERRORBUFFER, error_text);
    (void)c->setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    (void)c->setopt(e, CURLOPT_HEADERDATA, hop);
    (void)c->setopt(e, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)c->setopt(e, CURLOPT_WRITEDATA, hop);
    (void)c->setopt(e, CURLOPT_NOPROGRESS, 0L);
    (void)c->setopt(e, CURLOPT_XFERINFOFUNCTION, hub_http_on_progress);
    (void)c->setopt(e, CURLOPT_XFERINFODATA, hop);
    (void)c->setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    (void)c->setopt(e, CURLOPT_OPENSOCKETDATA, hop);
    if (client->ca_file != NULL)
        (void)c->setopt(e, CURLOPT_CAINFO, client->ca_file);
}

static lr_code hub_http_explain(const struct hop *hop, CURLcode rc, const struct hub_url *url,
                                const char *error_text)
{
    const char *text = error_text[0] != '\0' ? error_text : hop->http->curl->strerror(rc);
    if (hop->code != LR_OK)
        return hop->code; /* the callback has filled err */
    if (rc == CURLE_ABORTED_BY_CALLBACK)
        return lr_fail(hop->err, LR_CANCELLED, "cancelled");
    if (hop->address_refused)
        return lr_fail(hop->err, LR_PERMISSION_DENIED,
                       "refused to connect to %s: its name resolves to a private address; "
                       "where that is meant, name it with --hub-host %s",
                       url->host.name, url->host.name);
    if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE)
        return lr_fail(hop->err, LR_UPSTREAM,
                       "the certificate of %s is not trusted (%s); SSL_CERT_FILE names a file "
                       "of authorities",
                       url->host.name, text);
    return lr_fail(hop->err, LR_UPSTREAM, "cannot fetch from %s:%u: %s", url->host.name,
                   url->host.port, text);
}

static lr_code one_hop(struct hub_http *http, struct hop *hop, const char *url)
{
    char error_text[CURL_ERROR_SIZE] = "";
    struct hub_url parts;
    lr_code code =
        hub_policy_check(&http->client->policy, lr_str_z(url), &hop->is_named, hop->err);
    if (code == LR_OK)
        code = hub_url_parse(lr_str_z(url), &parts, hop->err);
    if (code != LR_OK)
        return code;
    const char *proxy = hub_proxy_for(&parts);
    hop->has_proxy = proxy != NULL;
    struct curl_slist *headers = make_headers(http, hop->call, url);
    set_options(http, hop, url, headers, proxy, error_text);
    CURLcode rc = http->curl->perform(http->easy);
    http->curl->slist_free_all(headers);
    hop->reply->status = status_of(hop);
    hop->reply->from_endpoint = hub_policy_is_endpoint(&http->client->policy, lr_str_z(url));
    curl_off_t wait = 0;
    (void)http->curl->getinfo(http->easy, CURLINFO_RETRY_AFTER, &wait);
    hop->reply->retry_after_s = wait > 0 && wait < 1000000 ? (uint32_t)wait : 0;
    if (rc != CURLE_OK)
        return hub_http_explain(hop, rc, &parts, error_text);
    if (hop->reply->status >= 200 && hop->reply->status <= 299 && !give_head(hop))
        return hop->code;
    return LR_OK;
}

lr_code hub_http_get(struct hub_http *http, const struct hub_call *call,
                     struct hub_reply *reply, struct lr_error *err)
{
    char url[HUB_URL_MAX];
    struct lr_error local;
    copy_text(url, sizeof(url), lr_str_z(call->url));
    for (int i = 0; i < MOST_HOPS; i++) {
        struct hop hop = {
            .http = http, .call = call, .reply = reply, .err = err != NULL ? err : &local};
        memset(reply, 0, sizeof(*reply));
        lr_code code = one_hop(http, &hop, url);
        if (code != LR_OK)
            return code;
        char *next = NULL;
        bool moves = reply->status == 301 || reply->status == 302 || reply->status == 303 ||
                     reply->status == 307 || reply->status == 308;
        if (moves)
            (void)http->curl->getinfo(http->easy, CURLINFO_REDIRECT_URL, &next);
        if (!moves || next == NULL)
            return LR_OK;
        if (strlen(next) >= sizeof(url))
            return lr_fail(err, LR_UPSTREAM, "the hub redirects to an address of %zu bytes",
                           strlen(next));
        copy_text(url, sizeof(url), lr_str_z(next));
    }
    return lr_fail(err, LR_UPSTREAM, "the hub redirects in a circle (%d times): %.200s",
                   MOST_HOPS, call->url);
}

/* Of "org/name/file": the bytes of "org/name". */
static int repo_length(const char *what)
{
    const char *slash = strchr(what, '/');
    const char *end = slash != NULL ? strchr(slash + 1, '/') : NULL;
    return (int)(end != NULL ? (size_t)(end - what) : strlen(what));
}

lr_code hub_http_fail(const struct hub_client *client, const struct hub_reply *reply,
                      const char *what, struct lr_error *err)
{
    const char *endpoint = client->policy.endpoint;
    const char *token = client->token[0] != '\0'
                            ? "the token in use has no access: set HF_TOKEN to one that has"
                            : "set HF_TOKEN to a token with access";
    int status = reply->status;
    if (strcmp(reply->error_code, "RevisionNotFound") == 0)
        return lr_fail(err, LR_NOT_FOUND, "%s: %s has no such revision", what, endpoint);
    if (strcmp(reply->error_code, "EntryNotFound") == 0)
        return lr_fail(err, LR_NOT_FOUND, "%s: %s has no such file", what, endpoint);
    if (strcmp(reply->error_code, "GatedRepo") == 0 || status == 403)
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "%s is gated or private (its terms are accepted at %s/%.*s); %s", what,
                       endpoint, repo_length(what), what, token);
    if (status == 404 || strcmp(reply->error_code, "RepoNotFound") == 0)
        return lr_fail(err, LR_NOT_FOUND, "%s does not exist at %s%s", what, endpoint,
                       client->token[0] != '\0' ? "" : ", or is private (then set HF_TOKEN)");
    if (status == 401) /* the hub answers 401 for private and for unknown repositories */
        return lr_fail(err, LR_PERMISSION_DENIED, "%s is gated, private or unknown to %s; %s",
                       what, endpoint, token);
    if (status == 429)
        return lr_fail(err, LR_RATE_LIMITED, "%s limits the rate of requests; try again %s%u s",
                       endpoint, reply->retry_after_s != 0 ? "in " : "later, not within ",
                       reply->retry_after_s != 0 ? reply->retry_after_s : 60);
    return lr_fail(err, LR_UPSTREAM, "%s answered %d for %s", endpoint, status, what);
}
