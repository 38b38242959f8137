/* net/tls_session.c - one TLS connection over two byte buffers.
 *
 * OpenSSL reads from `in` and writes to `out` through our own BIO. OpenSSL's memory BIO never
 * frees memory; here an idle connection holds no buffers.
 */
#include "net/tls_session.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/os/socket.h"
#include "net/internal.h"
#include "net/tls_internal.h"

enum { MAX_PENDING = 64 << 20 };

struct net_tls_session {
    SSL *ssl;          /* owned */
    struct lr_buf in;  /* from the socket, not yet read by OpenSSL */
    size_t in_used;    /* bytes of `in` already read */
    struct lr_buf out; /* for the socket */
    bool is_up;
    char name[256];        /* name that the peer must prove; "" for a server */
    struct lr_error blame; /* what verification found; code 0: no problem */
};

/* ---- the BIO ---- */

static int bio_read(BIO *bio, char *buffer, int size)
{
    struct net_tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t left = s->in.len - s->in_used;
    if (left == 0 || size <= 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t count = left < (size_t)size ? left : (size_t)size;
    memcpy(buffer, s->in.data + s->in_used, count);
    s->in_used += count;
    if (s->in_used == s->in.len) {
        lr_buf_free(&s->in);
        s->in_used = 0;
    }
    return (int)count;
}

static int bio_write(BIO *bio, const char *bytes, int size)
{
    struct net_tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (size <= 0)
        return 0;
    lr_buf_add(&s->out, bytes, (size_t)size);
    return s->out.failed ? -1 : size;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)bio;
    (void)num;
    (void)ptr;
    return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *bio_method;
static uv_once_t bio_once = UV_ONCE_INIT;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "llm-router buffers");
    if (bio_method == NULL)
        return; /* no memory: each session reports it */
    (void)BIO_meth_set_read(bio_method, bio_read);
    (void)BIO_meth_set_write(bio_method, bio_write);
    (void)BIO_meth_set_ctrl(bio_method, bio_ctrl);
}

/* ---- what is wrong with a certificate ---- */

void net_tls_date(const ASN1_TIME *time, char out[32])
{
    struct tm tm = {0};
    (void)ASN1_TIME_to_tm(time, &tm);
    if (strftime(out, 32, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        out[0] = '\0';
}

/* The names a certificate is for: its alternative names, else its common name. */
static void cert_names(const X509 *cert, char *out, size_t size)
{
    struct lr_buf names;
    lr_buf_init(&names, size - 1);
    GENERAL_NAMES *list = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(list) && names.len < 160; i++) {
        const GENERAL_NAME *item = sk_GENERAL_NAME_value(list, i);
        char address[INET6_ADDRSTRLEN] = "";
        const char *text = NULL;
        size_t len = 0;
        if (item->type == GEN_DNS) {
            text = (const char *)ASN1_STRING_get0_data(item->d.dNSName);
            len = (size_t)ASN1_STRING_length(item->d.dNSName);
        } else if (item->type == GEN_IPADD) {
            int family = ASN1_STRING_length(item->d.iPAddress) == 4 ? AF_INET : AF_INET6;
            (void)inet_ntop(family, ASN1_STRING_get0_data(item->d.iPAddress), address,
                            sizeof(address));
            text = address;
            len = strlen(address);
        }
        if (len == 0)
            continue;
        if (names.len != 0)
            lr_buf_add_z(&names, ", ");
        lr_buf_add(&names, text, len);
    }
    GENERAL_NAMES_free(list);
    if (names.len == 0) {
        char common[128] = "";
        X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, common,
                                  sizeof(common));
        lr_buf_add_z(&names, common[0] != '\0' ? common : "nobody");
    }
    (void)snprintf(out, size, "%s", lr_buf_z(&names));
    lr_buf_free(&names);
}

int net_tls_on_verify(int ok, X509_STORE_CTX *store)
{
    if (ok)
        return 1;
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct net_tls_session *s = SSL_get_app_data(ssl);
    int problem = X509_STORE_CTX_get_error(store);
    const X509 *cert = X509_STORE_CTX_get_current_cert(store);
    char names[200] = "unknown";
    char issuer[128] = "unknown";
    char date[32] = "";
    if (cert != NULL) {
        cert_names(cert, names, sizeof(names));
        X509_NAME_get_text_by_NID(X509_get_issuer_name(cert), NID_commonName, issuer,
                                  sizeof(issuer));
    }
    switch (problem) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        net_tls_date(X509_get0_notAfter(cert), date);
        (void)lr_fail(&s->blame, LR_UPSTREAM, "certificate for \"%s\" expired on %s", names,
                      date);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        net_tls_date(X509_get0_notBefore(cert), date);
        (void)lr_fail(&s->blame, LR_UPSTREAM,
                      "certificate for \"%s\" is valid only from %s; check the clocks", names,
                      date);
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        (void)lr_fail(&s->blame, LR_UPSTREAM, "certificate is for \"%s\", not \"%s\"", names,
                      s->name);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        (void)lr_fail(&s->blame, LR_UPSTREAM,
                      "certificate for \"%s\" is signed by \"%s\", which is not trusted here; "
                      "add its CA (tls-ca)",
                      names, issuer);
        break;
    default:
        (void)lr_fail(&s->blame, LR_UPSTREAM, "certificate for \"%s\": %s", names,
                      X509_verify_cert_error_string(problem));
        break;
    }
    return 0;
}

/* ---- life ---- */

static bool expect_name(struct net_tls_session *s, const char *name)
{
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), name) == 1;
    return SSL_set1_host(s->ssl, name) == 1 && SSL_set_tlsext_host_name(s->ssl, s->name) == 1;
}

lr_code net_tls_session_create(struct net_tls *tls, const char *name,
                               struct net_tls_session **out, struct lr_error *err)
{
    *out = NULL;
    uv_once(&bio_once, make_bio_method);
    struct net_tls_session *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a TLS session");
    lr_buf_init(&s->in, MAX_PENDING);
    lr_buf_init(&s->out, MAX_PENDING);
    SSL_CTX *ctx = net_tls_current(tls);
    s->ssl = SSL_new(ctx); /* holds its own reference */
    SSL_CTX_free(ctx);
    BIO *bio = bio_method != NULL ? BIO_new(bio_method) : NULL;
    if (s->ssl == NULL || bio == NULL || (name != NULL && !expect_name(s, name))) {
        BIO_free(bio);
        net_tls_session_destroy(s);
        return lr_fail(err, LR_INTERNAL, "OpenSSL: %s", net_tls_reason());
    }
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    (void)SSL_set_app_data(s->ssl, s);
    if (tls->is_server)
        SSL_set_accept_state(s->ssl);
    else
        SSL_set_connect_state(s->ssl);
    *out = s;
    return LR_OK;
}

void net_tls_session_destroy(struct net_tls_session *s)
{
    if (s == NULL)
        return;
    SSL_free(s->ssl);
    lr_buf_free(&s->in);
    lr_buf_free(&s->out);
    free(s);
}

/* ---- bytes ---- */

lr_code net_tls_session_put(struct net_tls_session *s, struct lr_str bytes,
                            struct lr_error *err)
{
    lr_buf_add_str(&s->in, bytes);
    if (s->in.failed)
        return lr_fail(err, LR_OUT_OF_RAM, "too many TLS bytes wait to be read");
    return LR_OK;
}

static enum net_tls_result result_of(struct net_tls_session *s, int rc, struct lr_error *err)
{
    switch (SSL_get_error(s->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return NET_TLS_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        (void)lr_fail(err, LR_UPSTREAM, "TLS: the peer closed the connection");
        return NET_TLS_CLOSED;
    default:
        if (s->blame.code != LR_OK && err != NULL)
            *err = s->blame;
        else
            (void)lr_fail(err, LR_UPSTREAM, "TLS: %s", net_tls_reason());
        ERR_clear_error();
        return NET_TLS_FAILED;
    }
}

enum net_tls_result net_tls_session_handshake(struct net_tls_session *s, struct lr_error *err)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(s->ssl);
    if (rc != 1)
        return result_of(s, rc, err);
    s->is_up = true;
    return NET_TLS_READY;
}

enum net_tls_result net_tls_session_read(struct net_tls_session *s, char *buffer, size_t size,
                                         size_t *got, struct lr_error *err)
{
    ERR_clear_error();
    int rc = SSL_read_ex(s->ssl, buffer, size, got);
    return rc == 1 ? NET_TLS_READY : result_of(s, rc, err);
}

lr_code net_tls_session_write(struct net_tls_session *s, struct lr_str bytes,
                              struct lr_error *err)
{
    ERR_clear_error();
    while (bytes.len != 0) {
        size_t written = 0;
        if (SSL_write_ex(s->ssl, bytes.ptr, bytes.len, &written) != 1)
            return lr_fail(err, LR_UPSTREAM, "TLS: %s", net_tls_reason());
        bytes = lr_str_sub(bytes, written, bytes.len);
    }
    return LR_OK;
}

void net_tls_session_close_notify(struct net_tls_session *s)
{
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl);
    ERR_clear_error();
}

bool net_tls_session_is_up(const struct net_tls_session *s)
{
    return s->is_up;
}

struct lr_str net_tls_session_pending(struct net_tls_session *s)
{
    return lr_buf_str(&s->out);
}

void net_tls_session_taken(struct net_tls_session *s)
{
    lr_buf_free(&s->out);
}
