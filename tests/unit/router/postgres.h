/* A PostgreSQL server of the test program's own (tests/support/postgres). */
#ifndef TESTS_UNIT_ROUTER_POSTGRES_H
#define TESTS_UNIT_ROUTER_POSTGRES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char server_folder[64];
static char server_url[256]; /* with DATABASE in place of a name; "": SQLite */

static inline void name_database(const char *name, char out[320])
{
    const char *at = strstr(server_url, "DATABASE");
    (void)snprintf(out, 320, "%.*s%s%s", (int)(at - server_url), server_url, name,
                   at + strlen("DATABASE"));
}

/* script: tests/support/postgres */
static inline int start_server(const char *script)
{
    char command[512];
    (void)snprintf(server_folder, sizeof(server_folder), "/tmp/lr-router-pg-XXXXXX");
    if (mkdtemp(server_folder) == NULL)
        return -1;
    (void)snprintf(command, sizeof(command), "%s start %s", script, server_folder);
    FILE *out = popen(command, "r");
    bool ok = out != NULL && fgets(server_url, sizeof(server_url), out) != NULL;
    server_url[strcspn(server_url, "\n")] = '\0';
    return out != NULL && pclose(out) == 0 && ok ? 0 : -1;
}

static inline int stop_server(const char *script)
{
    char command[512];
    (void)snprintf(command, sizeof(command), "%s stop %s; rm -rf %s", script, server_folder,
                   server_folder);
    return system(command) == 0 ? 0 : -1;
}

#endif
