/* base/service.h - what a service manager (systemd) tells this process, and hears from it.
 *
 *   LISTEN_FDS, LISTEN_PID,          listening sockets that the manager has opened, and a file
 *   LISTEN_FDNAMES                   that the process before has left with the manager
 *   NOTIFY_SOCKET                    datagrams: READY=1, RELOADING=1, STOPPING=1, MAINPID=...,
 *                                    FDSTORE=1
 *   WATCHDOG_USEC, WATCHDOG_PID      a WATCHDOG=1 is due at least this often
 *
 * Without a manager the functions do nothing.  Thread: lr_service_read before there are other
 * threads; the others from any.
 */
#ifndef BASE_SERVICE_H
#define BASE_SERVICE_H

#include <stddef.h>
#include <stdint.h>

/* Reads the variables and removes them from the environment, so that children do not take them
 * for theirs.  The second call does nothing. */
void lr_service_read(void);

/* The sockets, as descriptors that close on exec. */
enum { LR_SERVICE_SOCKETS_MAX = 8 };
size_t lr_service_sockets(int out[LR_SERVICE_SOCKETS_MAX]);

/* Leaves a file with the manager for the next process of this service (the unit needs
 * FileDescriptorStoreMax=1), and takes what the process before has left: -1: nothing.  The
 * descriptor is the caller's. */
void lr_service_store(int fd);
int lr_service_take_stored(void);

/* "READY=1\nSTATUS=serves 3 models" */
void lr_service_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Milliseconds between two WATCHDOG=1; 0: none is expected. */
uint64_t lr_service_watchdog_ms(void);

/* "NOTIFY_SOCKET=..." and "WATCHDOG_USEC=..." for a process that replaces this one; "": not
 * set. */
enum { LR_SERVICE_ENV_MAX = 160 };
void lr_service_env(char notify[LR_SERVICE_ENV_MAX], char watchdog[LR_SERVICE_ENV_MAX]);

#endif
