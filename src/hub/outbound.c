#include "hub/outbound.h"

#include <stdlib.h>

#include "hub/http.h"

enum { CONNECT_MS = 5000 };

struct transfer {
    const struct hub_outbound_call *call;
    struct hub_outbound_reply *reply;
    bool is_too_large;
};

lr_code hub_outbound_open(struct hub_outbound *out, struct lr_error *err)
{
    *out = (struct hub_outbound){0};
    lr_code code = hub_curl_load(&out->curl, err);
    if (code != LR_OK)
        return code;
    out->easy = out->curl->easy_init();
    return out->easy != NULL ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory for libcurl");
}

void hub_outbound_close(struct hub_outbound *out)
{
    if (out->easy != NULL)
        out->curl->easy_cleanup(out->easy);
    out->easy = NULL;
}

void hub_outbound_reply_free(struct hub_outbound_reply *reply)
{
    lr_buf_free(&reply->body);
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    size_t len = size * count;
    lr_buf_add(&t->reply->body, bytes, len);
    t->is_too_large = t->reply->body.failed;
    return t->is_too_large ? 0 : len;
}

static int outbound_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c,
                                curl_off_t d)
{
    const struct transfer *t = arg;
    (void)a, (void)b, (void)c, (void)d;
    return t->call->cancel != NULL && atomic_load(t->call->cancel) ? 1 : 0;
}

static void set_options(struct hub_outbound *out, struct transfer *t, const char *proxy,
                        struct curl_slist *headers, char *error_text)
{
    const struct hub_outbound_call *call = t->call;
    const struct hub_curl *c = out->curl;
    const char *ca_file = getenv("SSL_CERT_FILE");
    CURL *e = out->easy;
    c->easy_reset(e); /* keeps the connections */
    (void)c->setopt(e, CURLOPT_URL, call->url);
    (void)c->setopt(e, CURLOPT_HTTPHEADER, headers);
    (void)c->setopt(e, CURLOPT_USERAGENT, "llm-router");
    (void)c->setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)c->setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)c->setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)c->setopt(e, CURLOPT_NETRC, 0L);
    (void)c->setopt(e, CURLOPT_PROXY, proxy != NULL ? proxy : "");
    (void)c->setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
                    (long)(call->timeout_ms < CONNECT_MS ? call->timeout_ms : CONNECT_MS));
    (void)c->setopt(e, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    (void)c->setopt(e, CURLOPT_ERRORBUFFER, error_text);
    (void)c->setopt(e, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)c->setopt(e, CURLOPT_WRITEDATA, t);
    (void)c->setopt(e, CURLOPT_NOPROGRESS, 0L);
    (void)c->setopt(e, CURLOPT_XFERINFOFUNCTION, outbound_on_progress);
    (void)c->setopt(e, CURLOPT_XFERINFODATA, t);
    if (call->body.ptr != NULL) {
        (void)c->setopt(e, CURLOPT_POST, 1L);
        (void)c->setopt(e, CURLOPT_POSTFIELDS, call->body.ptr);
        (void)c->setopt(e, CURLOPT_POSTFIELDSIZE, (long)call->body.len);
    }
    if (call->user != NULL) {
        (void)c->setopt(e, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        (void)c->setopt(e, CURLOPT_USERNAME, call->user);
        (void)c->setopt(e, CURLOPT_PASSWORD, call->password);
    }
    if (ca_file != NULL && ca_file[0] != '\0')
        (void)c->setopt(e, CURLOPT_CAINFO, ca_file);
}

static lr_code outbound_explain(const struct hub_outbound *out, const struct transfer *t,
                                CURLcode rc, const struct hub_url *url, const char *error_text,
                                struct lr_error *err)
{
    const char *text = error_text[0] != '\0' ? error_text : out->curl->strerror(rc);
    if (rc == CURLE_ABORTED_BY_CALLBACK)
        return lr_fail(err, LR_CANCELLED, "cancelled");
    if (t->is_too_large)
        return lr_fail(err, LR_TOO_LARGE, "the answer of %s has more than %zu bytes",
                       url->host.name, t->call->max_bytes);
    if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE)
        return lr_fail(err, LR_UPSTREAM,
                       "the certificate of %s is not trusted (%s); SSL_CERT_FILE names a file "
                       "of authorities",
                       url->host.name, text);
    return lr_fail(err, LR_UPSTREAM, "%s:%u does not answer: %s", url->host.name,
                   url->host.port, text);
}

lr_code hub_outbound_send(struct hub_outbound *out, const struct hub_outbound_call *call,
                          struct hub_outbound_reply *reply, struct lr_error *err)
{
    struct transfer t = {.call = call, .reply = reply};
    char error_text[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    struct hub_url url;
    long status = 0;
    curl_off_t retry = 0;
    *reply = (struct hub_outbound_reply){0};
    lr_buf_init(&reply->body, call->max_bytes);
    lr_code code = hub_url_parse(lr_str_z(call->url), &url, err);
    if (code != LR_OK)
        return code;
    for (size_t i = 0; i < call->header_count; i++)
        headers = out->curl->slist_append(headers, call->headers[i]);
    set_options(out, &t, hub_proxy_for(&url), headers, error_text);
    CURLcode rc = out->curl->perform(out->easy);
    out->curl->slist_free_all(headers);
    if (rc != CURLE_OK)
        return outbound_explain(out, &t, rc, &url, error_text, err);
    (void)out->curl->getinfo(out->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)out->curl->getinfo(out->easy, CURLINFO_RETRY_AFTER, &retry);
    reply->status = (int)status;
    reply->retry_after_s = retry > 0 && retry < UINT32_MAX ? (uint32_t)retry : 0;
    return LR_OK;
}
