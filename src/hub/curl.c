/* hub/curl.c - opening libcurl. */
#include "hub/curl.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/os/library.h"

static struct hub_curl api;
static lr_code outcome;
static struct lr_error reason;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* POSIX guarantees that a void * from dlsym can hold a function; ISO C has no cast for it. */
static bool curl_take(void *library, const char *name, void *function)
{
    void *symbol = lr_library_symbol(library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static void curl_load(void)
{
    CURLcode (*global_init)(long) = NULL;
    /* Stays open until the process ends. */
    void *library = lr_library_open_known(LR_LIBRARY_CURL);
    if (library == NULL) {
        outcome = lr_fail(&reason, LR_UNAVAILABLE,
                          "the hub, an OpenID provider and a collector of traces need libcurl, "
                          "which is not installed (Debian and Ubuntu: apt install libcurl4)");
        return;
    }
    if (!curl_take(library, "curl_global_init", &global_init) ||
        !curl_take(library, "curl_easy_init", &api.easy_init) ||
        !curl_take(library, "curl_easy_cleanup", &api.easy_cleanup) ||
        !curl_take(library, "curl_easy_reset", &api.easy_reset) ||
        !curl_take(library, "curl_easy_setopt", &api.setopt) ||
        !curl_take(library, "curl_easy_getinfo", &api.getinfo) ||
        !curl_take(library, "curl_easy_perform", &api.perform) ||
        !curl_take(library, "curl_easy_strerror", &api.strerror) ||
        !curl_take(library, "curl_slist_append", &api.slist_append) ||
        !curl_take(library, "curl_slist_free_all", &api.slist_free_all))
        outcome = lr_fail(&reason, LR_UNAVAILABLE,
                          "the libcurl that is installed lacks functions of version 7.66");
    else if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        outcome = lr_fail(&reason, LR_UNAVAILABLE, "libcurl cannot be initialised");
}

lr_code hub_curl_load(const struct hub_curl **out, struct lr_error *err)
{
    *out = &api;
    (void)pthread_once(&once, curl_load);
    return outcome == LR_OK ? LR_OK : lr_fail(err, outcome, "%s", reason.text);
}
