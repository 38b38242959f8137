/* hub/curl.h - libcurl, loaded at first use: a node that downloads nothing does not need it.
 * Thread: any; each handle belongs to one thread. */
#ifndef HUB_CURL_H
#define HUB_CURL_H

#include <curl/curl.h>

#include "base/fail.h"

struct hub_curl {
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *);
    void (*easy_reset)(CURL *);
    CURLcode (*setopt)(CURL *, CURLoption, ...);
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    CURLcode (*perform)(CURL *);
    const char *(*strerror)(CURLcode);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free_all)(struct curl_slist *);
};

/* UNAVAILABLE names the package to install. */
LR_MUST_USE lr_code hub_curl_load(const struct hub_curl **out, struct lr_error *err);

#endif
