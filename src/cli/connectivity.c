#include "cli/connectivity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/os/socket.h"
#include "cli/remote.h"
#include "cli/version.h"
#include "net/url.h"

enum { CONNECT_MS = 5000, ANSWER_MS = 10000, TEXT = 700 };

/* NULL: the error was printed. */
static struct addrinfo *connectivity_look_up(struct cli_checks *c, const struct net_url *url)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[8], text[TEXT], advice[TEXT], address[64] = "";
    (void)snprintf(port, sizeof(port), "%u", url->port);
    int rc = getaddrinfo(url->host, port, &hints, &found);
    if (rc == 0)
        (void)getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof(address), NULL, 0,
                          NI_NUMERICHOST);
    (void)snprintf(text, sizeof(text), "the name %.250s%s%s", url->host,
                   rc == 0 ? " has the address " : "", address);
    (void)snprintf(advice, sizeof(advice), "%s: check --url, DNS and /etc/hosts",
                   rc != 0 ? gai_strerror(rc) : "");
    cli_check(c, rc == 0, text, advice);
    return rc == 0 ? found : NULL;
}

static bool check_connection(struct cli_checks *c, const struct net_url *url,
                             const struct addrinfo *list)
{
    char text[TEXT], advice[TEXT];
    int rc = ECONNREFUSED;
    for (const struct addrinfo *to = list; to != NULL && rc != 0; to = to->ai_next) {
        int fd = lr_socket_connect(to->ai_addr, to->ai_addrlen, CONNECT_MS);
        rc = fd >= 0 ? 0 : errno;
        if (fd >= 0)
            lr_socket_close(fd);
    }
    (void)snprintf(text, sizeof(text), "port %u of %.250s takes connections", url->port,
                   url->host);
    (void)snprintf(advice, sizeof(advice), "%s: %s", strerror(rc),
                   rc == ETIMEDOUT ? "a firewall may drop the packets"
                                   : "is the router running, and does it listen on an address "
                                     "that this machine reaches (--listen)?");
    cli_check(c, rc == 0, text, advice);
    return rc == 0;
}

/* What follows the number of a version, " (0123456789ab)", does not count. */
static bool is_same_version(const char *a, const char *b)
{
    size_t len = strcspn(a, " ");
    return len == strcspn(b, " ") && strncmp(a, b, len) == 0;
}

static bool check_answer(struct cli_checks *c, const struct lr_settings *s, bool is_https)
{
    struct cli_answer a;
    struct lr_error err = {0};
    char text[TEXT], advice[TEXT];
    lr_code code = cli_ask_within(s, ANSWER_MS, "/health", &a, &err);
    /* A router that stops answers 503, and is one all the same. */
    bool is_ours = a.json != NULL && lr_json_get(a.json, "uptime_ms") != NULL;
    const char *why = is_ours ? "" : code != LR_OK ? err.text : "another program answers there";
    cli_check(c, is_ours,
              is_https ? "TLS: the router's certificate is accepted, and the router answers"
                       : "the router answers",
              why);
    if (is_ours) {
        const char *version = cli_text(&a.arena, a.json, "version");
        (void)snprintf(text, sizeof(text), "the router has version %.100s", version);
        (void)snprintf(advice, sizeof(advice),
                       "this program has %.100s: a release works with the release before and "
                       "after it",
                       cli_version());
        cli_check(c, is_same_version(version, cli_version()), text, advice);
    }
    cli_answer_free(&a);
    return is_ours;
}

static void connectivity_check_key(struct cli_checks *c, const struct lr_settings *s)
{
    struct cli_answer a;
    struct lr_error err = {0};
    char text[TEXT];
    lr_code code = cli_ask_within(s, ANSWER_MS, "/v0/whoami", &a, &err);
    const char *role = code == LR_OK ? cli_text(&a.arena, a.json, "role") : "";
    (void)snprintf(text, sizeof(text), "the key%s%.60s", role[0] != '\0' ? ": role " : "",
                   role);
    cli_check(c, code == LR_OK, text, err.text);
    cli_answer_free(&a);
}

void cli_check_connectivity(struct cli_checks *c, const struct lr_settings *s)
{
    struct net_url url;
    struct lr_error err = {0};
    if (net_url_parse(cli_router_url(s), &url, &err) != LR_OK) {
        cli_check(c, false, "the URL of the router", err.text);
        return;
    }
    struct addrinfo *list = connectivity_look_up(c, &url);
    bool goes_on = list != NULL && check_connection(c, &url, list);
    if (list != NULL)
        freeaddrinfo(list);
    if (goes_on && check_answer(c, s, url.is_https))
        connectivity_check_key(c, s);
}
