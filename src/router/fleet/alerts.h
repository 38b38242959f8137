/* router/fleet/alerts.h - events about nodes, and alerts: what an operator should look at, with
 * what to do about it.
 *
 * Some alerts are a state (a node is silent, a memory is nearly full): they are open
 * until that ends.  Others happened (a worker was killed): they are history at once.  One
 * of each kind, node and subject is kept, with how often it happened; the table is
 * bounded and the oldest that is over makes room.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_FLEET_ALERTS_H
#define ROUTER_FLEET_ALERTS_H

#include "net/bus.h"
#include "router/fleet/nodes.h"

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
      "the node starts another worker automatically, and this alert ends when a worker of "    \
      "the model has served again; if it happens again, update the engine, or raise "          \
      "step-timeout or load-timeout if the device is only slow")                               \
    X(WORKER_DIED,      "worker_died",      "error",   true,                                   \
      "the node starts another worker automatically, and this alert ends when a worker of "    \
      "the model has served again; if it happens again, check the node's log and update "      \
      "the engine")                                                                            \
    X(DOWNLOAD_FAILED,  "download_failed",  "error",   true,                                   \
      "the node retries automatically; check its disk space and its connection to the hub")    \
    X(MODEL_WAITING,    "model_waiting",    "error",   true,                                   \
      "the node retries automatically, at least every five minutes; remove the cause that "    \
      "the message names, then load the model to retry at once")                               \
    X(MODEL_FAILED,     "model_failed",     "error",   true,                                   \
      "remove the cause that the message names, then load the model again")                    \
    X(ENGINE_REFUSED,   "engine_refused",   "error",   true,                                   \
      "install a build of this engine for this release, or remove its folder")                 \
    X(RELOAD_FAILED,    "reload_failed",    "warning", false,                                  \
      "the previous version keeps serving; repair the new version and reload again")           \
    X(DATABASE_FAILED,  "database_failed",  "error",   true,                                   \
      "restore the database or free space on its disk; meanwhile requests are served, "        \
      "their usage is kept in memory, and changes are refused")                                \
    X(CERTIFICATE_ENDS, "certificate_ends", "warning", true,                                   \
      "renew the certificate: new files of tls-cert and tls-key are used within ten "          \
      "seconds")
/* clang-format on */

enum router_alert_kind {
#define X(name, text, level, is_state, advice) ROUTER_ALERT_##name,
    ROUTER_ALERT_MAP(X)
#undef X
};

struct router_alert {
    uint64_t id; /* 0: free */
    enum router_alert_kind kind;
    char node[48], node_name[64];
    char subject[ROUTER_ID_MAX]; /* a model, a memory, an engine; "" */
    char message[ROUTER_REASON_MAX];
    uint64_t count;
    int64_t first_ms, last_ms, ended_ms; /* wall; ended 0: open */
};

struct router_alerts {
    struct net_bus *events; /* borrowed: its subscribers are told */
    struct router_alert all[ROUTER_ALERTS_MAX];
    uint64_t next_id;
};

/* Keeps the alert and tells it.  node NULL: it is about the router itself. */
void router_alert_raise(struct router_alerts *alerts, enum router_alert_kind kind,
                        const struct router_node *node, struct lr_str subject,
                        struct lr_str message);
/* The state is over; nothing where none was open. */
void router_alert_settle(struct router_alerts *alerts, enum router_alert_kind kind,
                         const struct router_node *node, struct lr_str subject);
/* About the router itself: raised when it begins and settled when it ends.  True: it has begun
 * now. */
bool router_alert_watch(struct router_alerts *alerts, enum router_alert_kind kind,
                        bool is_wrong, const char *message);
/* The node was restarted or removed: whatever was open on it is over. */
void router_alerts_settle_node(struct router_alerts *alerts, const struct router_node *node);

/* Tells an event about a node.  Where the node is online, the alert of its silence ends. */
void router_alerts_tell(struct router_alerts *alerts, const struct router_node *node,
                        const char *event);
/* The node is offline. */
void router_alerts_silent(struct router_alerts *alerts, const struct router_node *node,
                          uint64_t silent_ms);
/* What a heartbeat brought beside load and memory: passes the node's events on, with the alerts
 * that they mean, and its downloads. */
void router_alerts_heartbeat(struct router_alerts *alerts, struct router_node *node,
                             const struct wire_heartbeat *heartbeat);

/* {"alerts": [...]}, open ones first, then the newest. */
void router_alerts_write(const struct router_alerts *alerts, struct lr_json_writer *w);

#endif
