/* engines/testing/hostile_sockets.c - connections out of a confined process. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engines/testing/hostile.h"

/* The code of the first call that fails. */
static int end(int fd, int code)
{
    if (fd >= 0)
        (void)close(fd);
    return code;
}

static int open_socket(int family, int type)
{
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    return end(fd, hostile_code(fd));
}

static int connect_tcp(const struct hostile_plan *plan)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)plan->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    return end(fd, hostile_code(connect(fd, (const struct sockaddr *)&to, sizeof(to))));
}

static int listen_tcp(const struct hostile_plan *plan)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)plan;
    if (fd < 0)
        return errno;
    return end(fd, hostile_code(bind(fd, (const struct sockaddr *)&at, sizeof(at))));
}

static int use_udp(const struct hostile_plan *plan)
{
    (void)plan;
    return open_socket(AF_INET, SOCK_DGRAM);
}

static int use_udp6(const struct hostile_plan *plan)
{
    (void)plan;
    return open_socket(AF_INET6, SOCK_DGRAM);
}

static int use_netlink(const struct hostile_plan *plan)
{
    (void)plan;
    return open_socket(AF_NETLINK, SOCK_RAW);
}

static int use_packets(const struct hostile_plan *plan)
{
    (void)plan;
    return open_socket(AF_PACKET, SOCK_RAW);
}

static int use_vsock(const struct hostile_plan *plan)
{
    (void)plan;
    return open_socket(AF_VSOCK, SOCK_STREAM);
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%.100s", path);
    return to;
}

static int connect_local(const char *path, int type)
{
    struct sockaddr_un to = address_of(path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    return end(fd, hostile_code(connect(fd, (const struct sockaddr *)&to, sizeof(to))));
}

static int take_handover(const struct hostile_plan *plan)
{
    return connect_local(plan->handover, SOCK_SEQPACKET);
}

static int be_admin(const struct hostile_plan *plan)
{
    return connect_local(plan->listener, SOCK_STREAM);
}

static int use_user_bus(const struct hostile_plan *plan)
{
    char path[64];
    (void)plan;
    (void)snprintf(path, sizeof(path), "/run/user/%u/bus", (unsigned)getuid());
    return connect_local(path, SOCK_STREAM);
}

static int use_system_bus(const struct hostile_plan *plan)
{
    (void)plan;
    return connect_local("/run/dbus/system_bus_socket", SOCK_STREAM);
}

static int use_docker(const struct hostile_plan *plan)
{
    (void)plan;
    return connect_local("/run/docker.sock", SOCK_STREAM);
}

static int use_postgresql(const struct hostile_plan *plan)
{
    (void)plan;
    return connect_local("/run/postgresql/.s.PGSQL.5432", SOCK_STREAM);
}

static int use_abstract(const struct hostile_plan *plan)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "\0llm-router-hostile"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)plan;
    if (fd < 0)
        return errno;
    return end(fd, hostile_code(connect(fd, (const struct sockaddr *)&to, sizeof(to))));
}

/* A pair needs no socket(), and its datagram sockets can send elsewhere. */
static int notify_manager(const struct hostile_plan *plan)
{
    struct sockaddr_un to = address_of(plan->datagram);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    ssize_t n = sendto(pair[0], "hostile", 7, 0, (const struct sockaddr *)&to, sizeof(to));
    int code = hostile_code(n);
    (void)close(pair[1]);
    return end(pair[0], code);
}

/* Raw local sockets are datagram sockets with another name. */
static int notify_raw(const struct hostile_plan *plan)
{
    int pair[2];
    (void)plan;
    if (socketpair(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    (void)close(pair[1]);
    return end(pair[0], 0);
}

static int pair_of_network(const struct hostile_plan *plan)
{
    int pair[2];
    (void)plan;
    if (socketpair(AF_TIPC, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    (void)close(pair[1]);
    return end(pair[0], 0);
}

const struct hostile_attempt hostile_sockets[] = {
    {"tcp_connect", LR_BARRIER_TCP, connect_tcp},
    {"tcp_listen", LR_BARRIER_TCP, listen_tcp},
    {"udp", LR_BARRIER_SOCKETS, use_udp},
    {"udp6", LR_BARRIER_SOCKETS, use_udp6},
    {"netlink", LR_BARRIER_SOCKETS, use_netlink},
    {"packets", LR_BARRIER_SOCKETS, use_packets},
    {"vsock", LR_BARRIER_SOCKETS, use_vsock},
    {"pair_of_network", LR_BARRIER_SOCKETS, pair_of_network},
    {"router_handover", LR_BARRIER_LOCAL, take_handover},
    {"router_listener", LR_BARRIER_LOCAL, be_admin},
    {"user_bus", LR_BARRIER_LOCAL, use_user_bus},
    {"system_bus", LR_BARRIER_LOCAL, use_system_bus},
    {"docker", LR_BARRIER_LOCAL, use_docker},
    {"postgresql", LR_BARRIER_LOCAL, use_postgresql},
    {"abstract", LR_BARRIER_LOCAL, use_abstract},
    {"pair_datagram", LR_BARRIER_LOCAL, notify_manager},
    {"pair_raw", LR_BARRIER_LOCAL, notify_raw},
    {.name = NULL},
};
