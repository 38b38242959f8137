/* net/tls.c - TLS contexts on OpenSSL: loading certificates, error messages. */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/os/file.h"
#include "net/internal.h"
#include "net/tls_internal.h"

/* The innermost reason in OpenSSL's error queue, as text; clears the queue. */
const char *net_tls_reason(void)
{
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return reason != NULL ? reason : "no reason given";
}

static lr_code check_readable(const char *what, const char *file, struct lr_error *err)
{
    if (!lr_can_read(file))
        return lr_fail_errno(err, LR_INVALID_ARGUMENT, "cannot read the %s file %s", what,
                             file);
    return LR_OK;
}

/* Of TLS 1.2 only suites whose keys are gone after the connection, and whose records have one
 * check that nobody can take apart.  TLS 1.3 has no others. */
static void set_manners(SSL_CTX *ctx)
{
    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    (void)SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20");
    /* Idle connections hold no record buffers; a write may be retried from another address. */
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Clients resume with tickets; a session cache would keep kilobytes for each client. */
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}

/* Only HTTP/1.1 is supported; a client that does not offer it gets it anyway. */
static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *arg)
{
    (void)ssl;
    (void)arg;
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static lr_code load_identity(SSL_CTX *ctx, const char *cert_file, const char *key_file,
                             struct lr_error *err)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "%s is no PEM certificate (%s): it must begin with -----BEGIN "
                       "CERTIFICATE-----",
                       cert_file, net_tls_reason());
    const X509 *cert = SSL_CTX_get0_certificate(ctx);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
        char date[32];
        net_tls_date(X509_get0_notAfter(cert), date);
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the certificate in %s expired on %s: renew it", cert_file, date);
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1) {
        unsigned long code = ERR_peek_error();
        if (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
            ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH) {
            ERR_clear_error();
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "the key in %s belongs to another certificate than %s", key_file,
                           cert_file);
        }
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "%s is no PEM private key without a passphrase (%s)", key_file,
                       net_tls_reason());
    }
    if (SSL_CTX_check_private_key(ctx) != 1)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the key in %s belongs to another certificate than %s", key_file,
                       cert_file);
    return LR_OK;
}

/* A server starts all the same: some systems give keys to a group or by an access list. */
static void warn_of_readers(const char *key_file)
{
    enum { OTHERS_READ = 04 };
    struct lr_stat info;
    char mode[8];
    if (!lr_stat(key_file, &info) || (info.mode & OTHERS_READ) == 0)
        return;
    (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)(info.mode & 07777));
    lr_log_warn(NULL, "tls.key_readable file=%s mode=%s reason=%s", key_file, mode,
                "every user of this machine can read the private key: chmod o-r it, and renew "
                "the certificate");
}

static lr_code load_server(const char *cert_file, const char *key_file, SSL_CTX **out,
                           struct lr_error *err)
{
    lr_code code = check_readable("certificate", cert_file, err);
    if (code == LR_OK)
        code = check_readable("key", key_file, err);
    if (code == LR_OK)
        warn_of_readers(key_file);
    if (code != LR_OK)
        return code;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx == NULL)
        return lr_fail(err, LR_INTERNAL, "OpenSSL: %s", net_tls_reason());
    code = load_identity(ctx, cert_file, key_file, err);
    if (code != LR_OK) {
        SSL_CTX_free(ctx);
        return code;
    }
    SSL_CTX_set_alpn_select_cb(ctx, select_alpn, NULL);
    set_manners(ctx);
    *out = ctx;
    return LR_OK;
}

static lr_code load_client(const char *ca_file, SSL_CTX **out, struct lr_error *err)
{
    if (ca_file != NULL) {
        lr_code code = check_readable("CA", ca_file, err);
        if (code != LR_OK)
            return code;
    }
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL)
        return lr_fail(err, LR_INTERNAL, "OpenSSL: %s", net_tls_reason());
    if (ca_file != NULL ? SSL_CTX_load_verify_locations(ctx, ca_file, NULL) != 1
                        : SSL_CTX_set_default_verify_paths(ctx) != 1) {
        SSL_CTX_free(ctx);
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s holds no PEM certificates (%s)",
                       ca_file != NULL ? ca_file : "the system's certificate store",
                       net_tls_reason());
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, net_tls_on_verify);
    (void)SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)"\x08http/1.1", 9);
    set_manners(ctx);
    *out = ctx;
    return LR_OK;
}

lr_code net_tls_load(const struct net_tls *tls, SSL_CTX **out, struct lr_error *err)
{
    return tls->is_server ? load_server(tls->files[0], tls->files[1], out, err)
                          : load_client(tls->files[0], out, err);
}

static char *copy_of(const char *text)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    if (text != NULL && copy == NULL)
        abort(); /* as net_alloc */
    return copy;
}

static lr_code tls_create(bool is_server, const char *first, const char *second,
                          struct net_tls **out, struct lr_error *err)
{
    *out = NULL;
    struct net_tls *tls = net_alloc(sizeof(*tls));
    atomic_store(&tls->refs, 1);
    tls->is_server = is_server;
    tls->files[0] = copy_of(first);
    tls->files[1] = copy_of(second);
    (void)pthread_mutex_init(&tls->lock, NULL);
    (void)net_tls_take_stamps(tls);
    lr_code code = net_tls_load(tls, &tls->ctx, err);
    if (code != LR_OK) {
        net_tls_destroy(tls);
        return code;
    }
    net_tls_watch(tls);
    *out = tls;
    return LR_OK;
}

lr_code net_tls_server_create(const char *cert_file, const char *key_file, struct net_tls **out,
                              struct lr_error *err)
{
    return tls_create(true, cert_file, key_file, out, err);
}

lr_code net_tls_client_create(const char *ca_file, struct net_tls **out, struct lr_error *err)
{
    return tls_create(false, ca_file, NULL, out, err);
}

struct net_tls *net_tls_ref(struct net_tls *tls)
{
    if (tls != NULL)
        atomic_fetch_add(&tls->refs, 1);
    return tls;
}

SSL_CTX *net_tls_current(struct net_tls *tls)
{
    (void)pthread_mutex_lock(&tls->lock);
    SSL_CTX *ctx = tls->ctx;
    (void)SSL_CTX_up_ref(ctx);
    (void)pthread_mutex_unlock(&tls->lock);
    return ctx;
}

void net_tls_destroy(struct net_tls *tls)
{
    if (tls == NULL || atomic_fetch_sub(&tls->refs, 1) != 1)
        return;
    net_tls_forget(tls);
    SSL_CTX_free(tls->ctx);
    (void)pthread_mutex_destroy(&tls->lock);
    for (size_t i = 0; i < NET_TLS_FILES; i++)
        free(tls->files[i]);
    free(tls);
}
