/* net/tls_files.c - certificates renewed while the server runs: checks the files of all
 * contexts again and uses their new content for new connections.
 *
 * The list of contexts belongs to the process, so that a timer or signal handler need not know
 * all servers and clients.  A context whose files cannot be read stays unchanged.
 */
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/os/file.h"
#include "net/tls_internal.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_tls *list;

/* All zero for a missing file. */
static struct net_tls_stamp stamp_of(const char *file)
{
    struct lr_stat info;
    if (file == NULL || !lr_stat(file, &info))
        return (struct net_tls_stamp){0};
    return (struct net_tls_stamp){
        .device = info.device,
        .inode = info.inode,
        .size = info.size,
        .time_ns = info.changed_ns,
    };
}

static bool is_same(const struct net_tls_stamp *a, const struct net_tls_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->time_ns == b->time_ns;
}

bool net_tls_take_stamps(struct net_tls *tls)
{
    bool has_changed = false;
    for (size_t i = 0; i < NET_TLS_FILES; i++) {
        struct net_tls_stamp now = stamp_of(tls->files[i]);
        has_changed = has_changed || !is_same(&now, &tls->stamps[i]);
        tls->stamps[i] = now;
    }
    return has_changed;
}

void net_tls_watch(struct net_tls *tls)
{
    if (tls->files[0] == NULL)
        return; /* the system's CAs: no files to watch */
    (void)pthread_mutex_lock(&list_lock);
    tls->next = list;
    list = tls;
    (void)pthread_mutex_unlock(&list_lock);
}

void net_tls_forget(struct net_tls *tls)
{
    (void)pthread_mutex_lock(&list_lock);
    for (struct net_tls **at = &list; *at != NULL; at = &(*at)->next)
        if (*at == tls) {
            *at = tls->next;
            break;
        }
    (void)pthread_mutex_unlock(&list_lock);
}

static void reload(struct net_tls *tls)
{
    SSL_CTX *fresh;
    struct lr_error err;
    struct net_tls_validity validity;
    if (net_tls_load(tls, &fresh, &err) != LR_OK) {
        lr_log_warn(LR_LOG_OF(&err), "tls.kept file=%s reason=%s", tls->files[0], err.text);
        return;
    }
    (void)pthread_mutex_lock(&tls->lock);
    SSL_CTX *old = tls->ctx;
    tls->ctx = fresh;
    (void)pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(old);
    char until[LR_TIME_TEXT_LEN + 1] = "";
    if (net_tls_get_validity(tls, &validity))
        lr_time_format(validity.until_s * 1000, until);
    lr_log_info(NULL, "tls.reloaded file=%s until=%s", tls->files[0], until);
}

void net_tls_look(bool all)
{
    (void)pthread_mutex_lock(&list_lock);
    for (struct net_tls *tls = list; tls != NULL; tls = tls->next)
        if (net_tls_take_stamps(tls) || all)
            reload(tls);
    (void)pthread_mutex_unlock(&list_lock);
}

static int64_t end_of(const X509 *cert)
{
    struct tm tm = {0};
    return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

bool net_tls_names(struct net_tls *tls, const char *host)
{
    if (tls == NULL || !tls->is_server)
        return false;
    SSL_CTX *ctx = net_tls_current(tls);
    X509 *cert = SSL_CTX_get0_certificate(ctx);
    bool is_named =
        X509_check_host(cert, host, 0, 0, NULL) == 1 || X509_check_ip_asc(cert, host, 0) == 1;
    SSL_CTX_free(ctx);
    return is_named;
}

bool net_tls_get_validity(struct net_tls *tls, struct net_tls_validity *out)
{
    STACK_OF(X509) *chain = NULL;
    if (tls == NULL || !tls->is_server)
        return false;
    SSL_CTX *ctx = net_tls_current(tls);
    out->until_s = end_of(SSL_CTX_get0_certificate(ctx));
    (void)SSL_CTX_get0_chain_certs(ctx, &chain);
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t end = end_of(sk_X509_value(chain, i));
        if (end < out->until_s)
            out->until_s = end;
    }
    SSL_CTX_free(ctx);
    (void)snprintf(out->file, sizeof(out->file), "%s", tls->files[0]);
    return true;
}
