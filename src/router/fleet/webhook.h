/* router/fleet/webhook.h - tells an operator's HTTP server when an alert opens and ends.
 *
 * Once a second the router compares its open alerts with those that it has told, and writes the
 * difference with its messages to the database (store/outbox.h).  Messages are sent in order,
 * each until the receiver has taken it (2xx), after pauses that grow.  So neither a restart nor
 * a receiver that is away loses a message, and no request waits for either.  Of several routers
 * only the first by its URL sends.
 *
 * Moves of a webhook:
 *   idle -> asking, sending
 *   asking -> idle: a transaction has written differences and read the next message
 *   sending -> idle: the message has arrived, or it failed
 *
 * The transaction also removes the message that was taken.
 *
 * A message is signed as Standard Webhooks are: webhook-id, webhook-timestamp, and
 * webhook-signature, which is "v1," and the base64 of the HMAC-SHA256 of "id.timestamp.body".
 * Thread: loop 0, but for the counters.
 */
#ifndef ROUTER_FLEET_WEBHOOK_H
#define ROUTER_FLEET_WEBHOOK_H

#include <pthread.h>

#include "base/settings.h"
#include "net/client.h"
#include "router/fleet/sync.h"

enum router_webhook_state {
    ROUTER_WEBHOOK_IDLE,
    ROUTER_WEBHOOK_ASKING,
    ROUTER_WEBHOOK_SENDING
};

/* A difference between what is and what was told. */
struct router_webhook_change {
    uint64_t alert;
    bool opens;
    char kind[32], subject[ROUTER_ID_MAX];
    char *body; /* owned */
};

/* An alert that was told as open. */
struct router_webhook_told {
    uint64_t alert;
    char kind[32], subject[ROUTER_ID_MAX];
};

struct router_webhook {
    /* Borrowed; set once. */
    pthread_mutex_t *lock; /* the router's */
    struct router_store *store;
    struct router_alerts *alerts;
    struct router_sync *sync;
    struct net_loop *net;

    const char *url; /* NULL: there is no webhook */
    char secret[256];
    struct net_client *client; /* owned */
    uint64_t grace_ms;         /* for nodes to come back after a start */
    uint64_t started_ms;

    enum router_webhook_state state;
    struct router_webhook_told *told; /* owned; as the database has them for this router */
    size_t told_count, told_capacity;
    bool is_loaded;                        /* `told` is */
    struct router_webhook_change *changes; /* owned: of the transaction under way */
    size_t change_count;
    char routers[ROUTER_FLEET_MAX][ROUTER_URL_MAX]; /* that are alive, for the transaction */
    size_t router_count;
    bool sends;                /* this router sends, and the time has come */
    int64_t message_id;        /* that was read; 0: none */
    char *message;             /* owned */
    bool has_told_database;    /* that it fails; this router's own news, not kept */
    int64_t taken_id;          /* that the receiver has taken: to be removed; 0: none */
    uint64_t asked_ms, due_ms; /* monotonic: the last transaction; the next try */
    unsigned failures;         /* in a row */
    char trouble[200];         /* of the last failure; "": none */

    _Atomic uint64_t delivered, failed, waiting; /* for metrics */
};

/* Reads the settings.  INVALID_ARGUMENT: the URL is none. */
LR_MUST_USE lr_code router_webhook_init(struct router_webhook *webhook,
                                        const struct lr_settings *settings,
                                        struct lr_error *err);
/* The loops have ended; before the store is closed. */
void router_webhook_stop(struct router_webhook *webhook);
/* The store is closed. */
void router_webhook_free(struct router_webhook *webhook);

/* Once a second. */
void router_webhook_second(struct router_webhook *webhook);

/* "v1," and the signature of a message.  Pure. */
void router_webhook_sign(struct lr_str secret, const char *id, int64_t time_s,
                         struct lr_str body, struct lr_buf *out);

#endif
