#include "net/service.h"

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/service.h"

static void on_watchdog(void *arg)
{
    (void)arg;
    lr_service_tell("WATCHDOG=1");
}

void net_service_ready(struct net_loop *loop, struct net_timer **watchdog)
{
    uint64_t every_ms = lr_service_watchdog_ms();
    lr_service_tell("MAINPID=%ld\nREADY=1", (long)getpid());
    *watchdog = every_ms != 0 ? net_timer_start(loop, 0, every_ms, on_watchdog, NULL) : NULL;
}

void net_service_stopping(void)
{
    lr_service_tell("STOPPING=1");
}

void net_service_reloading(void)
{
    lr_service_tell("RELOADING=1\nMONOTONIC_USEC=%llu",
                    (unsigned long long)(lr_clock_ns(NULL) / 1000));
}

void net_service_reloaded(void)
{
    lr_service_tell("READY=1");
}
