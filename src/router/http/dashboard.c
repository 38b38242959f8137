/* router/http/dashboard.c - GET / and GET /assets/...: the web page.
 *
 * The page's name for its files holds a hash of them all, so they never change and a
 * browser keeps them; the page itself is asked for again each time and answered 304.
 * What the page may do is the least it can live with: scripts and styles from here only,
 * none inline, no other host, no frame, no form, no text ever taken for markup.
 * Thread: the request's loop.
 */
#include "router/http/dashboard.h"

#include <stdio.h>

#include "base/errors.h"
#include "router/http/api.h"
#include "router/http/state.h"

static const char POLICY[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const struct router_asset *dashboard_find(struct lr_str path)
{
    for (size_t i = 0; i < router_asset_count; i++)
        if (lr_str_eq_z(path, router_assets[i].path))
            return &router_assets[i];
    return NULL;
}

static bool names(const struct net_request *req, const char *header, const char *word)
{
    struct lr_str value;
    return net_request_header(req, header, &value) &&
           lr_str_find(value, lr_str_z(word)) != LR_STR_NONE;
}

static lr_code respond(struct net_request *req, const struct router_asset *asset,
                       const char *cache)
{
    net_response_header(req, "ETag", lr_str_z(asset->etag));
    net_response_header(req, "Cache-Control", lr_str_z(cache));
    net_response_header(req, "Vary", LR_STR_LIT("Accept-Encoding"));
    net_response_header(req, "Content-Security-Policy", lr_str_z(POLICY));
    net_response_header(req, "X-Content-Type-Options", LR_STR_LIT("nosniff"));
    net_response_header(req, "Referrer-Policy", LR_STR_LIT("no-referrer"));
    net_response_header(req, "Cross-Origin-Opener-Policy", LR_STR_LIT("same-origin"));
    if (names(req, "If-None-Match", asset->etag)) {
        net_respond(req, 304, NULL, lr_str(NULL, 0));
    } else {
        net_response_header(req, "Content-Encoding", LR_STR_LIT("gzip"));
        net_respond(req, 200, asset->type, lr_str((const char *)asset->bytes, asset->size));
    }
    return LR_OK;
}

/* For a reader without a browser, or a build without the page. */
static lr_code respond_text(const struct router *r, struct net_request *req)
{
    char text[512];
    int len =
        snprintf(text, sizeof(text),
                 "llm-router %s\n\n%s\nThe API: /v1/chat/completions, /v1/models (OpenAI), "
                 "/v0/... (administration, docs/openapi.yaml), /health.\n",
                 r->version,
                 router_asset_count != 0
                     ? "The dashboard is at this address, in a web browser."
                     : "This build has no dashboard: npm was not there when it was made.");
    net_respond(req, 200, "text/plain; charset=utf-8", lr_str(text, (size_t)len));
    return LR_OK;
}

lr_code router_api_dashboard(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct router_asset *page = dashboard_find(LR_STR_LIT(""));
    (void)err;
    return page == NULL || !names(req, "Accept-Encoding", "gzip")
               ? respond_text(r, req)
               : respond(req, page, "no-cache");
}

lr_code router_api_asset(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct router_asset *asset = dashboard_find(router_access(req)->match.tail);
    (void)r;
    return asset != NULL ? respond(req, asset, "public, max-age=31536000, immutable")
                         : lr_fail_plain(err, no_such_file);
}
