/* router/fleet/alerts.h - events about nodes, and alerts: what an operator should look at, with
 * what to do about it.
 *
 * Some alerts are a state (a node is silent, a memory is nearly full): they are open
 * until that ends.  Others happened (a reload failed): they are history at once.  One of each
 * kind and subject is kept, with the nodes on which it is open and how often it happened: ten
 * nodes with one cause are one alert.  An alert of the router itself is apart from the same
 * alert of nodes.  The table is bounded, and the oldest that is over makes room.
 *
 * The number of an alert follows from its kind and subject, so that it is the same on every
 * router and after a restart: an operator silences it by this number (silences.h).
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_FLEET_ALERTS_H
#define ROUTER_FLEET_ALERTS_H

#include "net/bus.h"
#include "router/fleet/nodes.h"
#include "router/fleet/silences.h"

enum { ROUTER_ALERTS_MAX = 100 };

/* clang-format off */
/*    name              in JSON             level      state  advice */
#define ROUTER_ALERT_MAP(X)                                                                    \
    X(NODE_OFFLINE,     "node_offline",     "error",   true,                                   \
      "check the node's process, its log and the network; its requests go to other nodes")     \
    X(NODE_UNREACHABLE, "node_unreachable", "error",   true,                                   \
      "open the node's port to the router (firewall), or start the node with --advertise "     \
      "and a URL that the router reaches; the node serves again as soon as the router "        \
      "reaches it")                                                                            \
    X(NODE_CLONED,      "node_cloned",      "error",   true,                                   \
      "stop one of the two processes; if the data folder was copied, delete "                  \
      "node-identity.json in the copy and start that node with a join token")                  \
    X(MEMORY_ALERT,     "memory_alert",     "warning", true,                                   \
      "unload or unpin a model, or serve a model on another node; the node unloads idle "      \
      "models automatically (setting memory-threshold)")                                       \
    X(GPU_FAULTY,       "gpu_faulty",       "error",   true,                                   \
      "the node uses the GPU no more: running requests end or continue on other GPUs; stop "   \
      "the node, reset the GPU (nvidia-smi --gpu-reset -i ID) or restart the machine, start "  \
      "the node again; if the error comes back, replace the GPU")                              \
    X(WATCHDOG_KILL,    "watchdog_kill",    "error",   true,                                   \
      "the node starts another worker automatically, and this alert ends when the model "      \
      "serves again or no request wants it; if it happens again, update the engine, or raise " \
      "step-timeout or load-timeout if the device is only slow")                               \
    X(WORKER_DIED,      "worker_died",      "error",   true,                                   \
      "the node starts another worker automatically, and this alert ends when the model "      \
      "serves again or no request wants it; if it happens again, check the node's log and "    \
      "update the engine")                                                                     \
    X(DOWNLOAD_FAILED,  "download_failed",  "error",   true,                                   \
      "the node retries automatically; check its disk space and its connection to the hub")    \
    X(NO_ENGINE,        "no_engine",        "error",   true,                                   \
      "this does not heal by itself: install an engine for the runtime that the message "      \
      "names on the nodes, or register the model in a format that an engine runs; if other "   \
      "nodes serve the model, silence the alert")                                              \
    X(MODEL_WAITING,    "model_waiting",    "error",   true,                                   \
      "the node retries automatically, at least every five minutes; remove the cause that "    \
      "the message names, then load the model to retry at once")                               \
    X(MODEL_FAILED,     "model_failed",     "error",   true,                                   \
      "remove the cause that the message names, then load the model again")                    \
    X(MODEL_DIFFERS,    "model_differs",    "error",   true,                                   \
      "give every node the same files under one name, or register the others by another name; " \
      "until then an answer that one of them began does not go on on the others")              \
    X(ENGINE_REFUSED,   "engine_refused",   "error",   true,                                   \
      "install a build of this engine for this release, or remove its folder")                 \
    X(ENGINE_DISK,      "engine_disk",      "error",   true,                                   \
      "the node retries automatically: free space on the disk of its data-dir, or repair the " \
      "disk; the engine's build is not the cause")                                             \
    X(RELOAD_FAILED,    "reload_failed",    "warning", false,                                  \
      "the previous version keeps serving; repair the new version and reload again")           \
    X(DATABASE_FAILED,  "database_failed",  "error",   true,                                   \
      "restore the database or free space on its disk; meanwhile requests are served, "        \
      "their usage is kept in memory, and changes are refused")                                \
    X(WEBHOOK_FAILED,   "webhook_failed",   "warning", true,                                   \
      "check the receiver and the setting alert-webhook; messages wait in the database and "   \
      "are sent when the receiver takes them")                                                 \
    X(CLOCK_DIFFERS,    "clock_differs",    "warning", true,                                   \
      "set the clock that is wrong by NTP (timedatectl, chronyc tracking); until then expiry "  \
      "dates of keys, certificates and budgets, and times in logs, differ between machines")   \
    X(CERTIFICATE_ENDS, "certificate_ends", "warning", true,                                   \
      "renew the certificate: new files of tls-cert and tls-key are used within ten "          \
      "seconds")                                                                               \
    X(BUDGET_SOFT,      "budget_soft",      "warning", true,                                   \
      "tell the owner of the key, or raise its tokens_per_month_soft; the alert ends with the " \
      "month")                                                                                 \
    X(BUDGET_SPENT,     "budget_spent",     "error",   true,                                   \
      "requests of the key get 429 until the next month: raise its tokens_per_month "          \
      "(llm-router keys set KEY --tokens-per-month N), or wait")
/* clang-format on */

enum router_alert_kind {
#define X(name, text, level, is_state, advice) ROUTER_ALERT_##name,
    ROUTER_ALERT_MAP(X)
#undef X
};

/* A node on which an alert is open. */
struct router_alert_node {
    char id[48], name[64];
    char message[ROUTER_REASON_MAX];
    int64_t since_ms; /* wall */
};

struct router_alert {
    uint64_t id; /* of its kind and subject; 0: free */
    enum router_alert_kind kind;
    bool is_own;                     /* of the router itself */
    struct router_alert_node *nodes; /* owned: where it is open, the newest last */
    size_t node_count, node_capacity;
    char node[48], node_name[64]; /* the newest of them; once it is over, the last one */
    char subject[ROUTER_ID_MAX];  /* a model, a memory, an engine, a router; "" */
    char message[ROUTER_REASON_MAX];
    uint64_t count;
    int64_t first_ms, last_ms, ended_ms; /* wall; ended 0: open */
};

struct router_registry;

struct router_alerts {
    struct net_bus *events;                 /* borrowed: its subscribers are told */
    const struct router_registry *registry; /* borrowed; NULL: every model is registered */
    struct router_alert all[ROUTER_ALERTS_MAX];
    struct router_silences silences;
};

void router_alerts_free(struct router_alerts *alerts);

/* Keeps the alert and tells it.  node NULL: the alert is about the router itself. */
void router_alert_raise(struct router_alerts *alerts, enum router_alert_kind kind,
                        const struct router_node *node, struct lr_str subject,
                        const struct lr_error *why);
/* The state is over on this node, and on all nodes where this was the last one. */
void router_alert_settle(struct router_alerts *alerts, enum router_alert_kind kind,
                         const struct router_node *node, struct lr_str subject);
/* Alerts of this kind about models that are not registered any more are over. */
void router_alerts_settle_gone(struct router_alerts *alerts, enum router_alert_kind kind);
/* Whether the alert is open on the node (NULL: about the router) with these words (NULL: with
 * any), or the table is full of others: raising it tells nothing new. */
bool router_alert_is_told(struct router_alerts *alerts, enum router_alert_kind kind,
                          const struct router_node *node, struct lr_str subject,
                          const struct lr_error *why);
/* About the router itself: raised when it begins and settled when it ends.  True: it has begun
 * now. */
bool router_alert_watch(struct router_alerts *alerts, enum router_alert_kind kind,
                        bool is_wrong, const struct lr_error *why);
/* The node was restarted or removed: whatever was open on it is over. */
void router_alerts_settle_node(struct router_alerts *alerts, const struct router_node *node);

/* Tells an event about a node.  Where the node is online, the alert of its silence ends. */
void router_alerts_tell(struct router_alerts *alerts, const struct router_node *node,
                        const char *event);
/* The node is offline. */
void router_alerts_silent(struct router_alerts *alerts, const struct router_node *node,
                          uint64_t silent_ms);
/* What a heartbeat brought beside load and memory: passes the node's events on, with the alerts
 * that they mean, and its downloads.  The alerts of faulty GPUs follow what the heartbeat says
 * of the GPUs. */
void router_alerts_heartbeat(struct router_alerts *alerts, struct router_node *node,
                             const struct wire_heartbeat *heartbeat);

/* NULL: none. */
const struct router_alert *router_alerts_find(const struct router_alerts *alerts, uint64_t id);
static inline bool router_alert_is_open(const struct router_alert *alert)
{
    return alert->ended_ms == 0;
}
const char *router_alert_kind_name(enum router_alert_kind kind);

/* The members of an alert, into an open object.  base: what its link begins with, "" for a link
 * within the dashboard. */
void router_alert_put(const struct router_alerts *alerts, const struct router_alert *alert,
                      const char *base, struct lr_json_writer *w);
/* An operator has silenced the alert, or ended its silence: subscribers are told. */
void router_alerts_changed(struct router_alerts *alerts, uint64_t id);
/* {"alerts": [...]}, open ones first, then the newest. */
void router_alerts_write(const struct router_alerts *alerts, struct lr_json_writer *w);
/* llm_router_alerts{kind,level}: open alerts that are not silenced. */
void router_alerts_metrics(const struct router_alerts *alerts, struct lr_buf *out);

#endif
