/* net/service.h - a server under a service manager (base/service.h): ready, watchdog, stop.
 *
 * Thread: the loop.
 */
#ifndef NET_SERVICE_H
#define NET_SERVICE_H

#include "net/loop.h"

/* The server accepts clients: says READY=1, and WATCHDOG=1 from now on for as long as the loop
 * runs.  *watchdog is the caller's; NULL where no watchdog is expected. */
void net_service_ready(struct net_loop *loop, struct net_timer **watchdog);

/* The server begins to stop. */
void net_service_stopping(void);

/* Around a reload of settings. */
void net_service_reloading(void);
void net_service_reloaded(void);

#endif
