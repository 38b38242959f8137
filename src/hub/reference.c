/* hub/reference.c - "org/name" or a Hugging Face address, and the addresses we build. */
#include <ctype.h>

#include "base/file.h"
#include "hub/url.h"

static bool name_valid(struct lr_str name)
{
    if (name.len == 0 || name.len > 96 || name.ptr[0] == '.' || name.ptr[0] == '-' ||
        lr_str_find(name, LR_STR_LIT("..")) != LR_STR_NONE)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (!isalnum(c) && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

bool hub_repo_valid(struct lr_str repo)
{
    size_t slash = lr_str_find_char(repo, '/');
    return slash != LR_STR_NONE && name_valid(lr_str_sub(repo, 0, slash)) &&
           name_valid(lr_str_sub(repo, slash + 1, repo.len));
}

struct lr_str hub_repo_owner(struct lr_str repo)
{
    size_t slash = lr_str_find_char(repo, '/');
    return slash == LR_STR_NONE ? (struct lr_str){0} : lr_str_sub(repo, 0, slash);
}

/* Decodes %XX into out; false when it does not fit, is malformed or contains a control
 * character. */
static bool unescape(struct lr_str text, char *out, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int c = (unsigned char)text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? lr_hex_digit(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? lr_hex_digit(text.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = high << 4 | low;
            i += 2;
        }
        if (len + 1 >= cap || c < ' ' || c == 0x7F)
            return false;
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return true;
}

/* Drops the host and the endpoint's path; false for another host. */
static bool strip_host(const struct hub_policy *policy, struct lr_str *text)
{
    static const char *const hosts[] = {"huggingface.co/", "www.huggingface.co/", "hf.co/"};
    struct lr_str endpoint = lr_str_z(policy->endpoint);
    if (text->len > endpoint.len &&
        lr_str_eq_nocase(lr_str_sub(*text, 0, endpoint.len), endpoint) &&
        text->ptr[endpoint.len] == '/') {
        *text = lr_str_sub(*text, endpoint.len + 1, text->len);
        return true;
    }
    size_t scheme = lr_str_find(*text, LR_STR_LIT("://"));
    struct lr_str rest =
        scheme == LR_STR_NONE ? *text : lr_str_sub(*text, scheme + 3, text->len);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct lr_str host = lr_str_z(hosts[i]);
        if (lr_str_eq_nocase(lr_str_sub(rest, 0, host.len), host)) {
            *text = lr_str_sub(rest, host.len, rest.len);
            return true;
        }
    }
    return scheme == LR_STR_NONE;
}

static bool has_mode(struct lr_str word)
{
    return lr_str_eq_z(word, "tree") || lr_str_eq_z(word, "blob") ||
           lr_str_eq_z(word, "resolve") || lr_str_eq_z(word, "raw");
}

static bool read_path(struct lr_str path, struct hub_reference *out)
{
    struct lr_str owner, name, mode, revision;
    while (lr_str_ends(path, "/"))
        path.len--;
    if (!lr_str_split(&path, '/', &owner) || !lr_str_split(&path, '/', &name) ||
        owner.len + name.len + 2 > sizeof(out->repo))
        return false;
    memcpy(out->repo, owner.ptr, owner.len);
    if (memchr(owner.ptr, '\0', owner.len) != NULL || memchr(name.ptr, '\0', name.len) != NULL)
        return false; /* what follows would be left out in silence */
    out->repo[owner.len] = '/';
    memcpy(out->repo + owner.len + 1, name.ptr, name.len);
    if (!hub_repo_valid(lr_str_z(out->repo)))
        return false;
    if (!lr_str_split(&path, '/', &mode))
        return true;
    if (!has_mode(mode) || !lr_str_split(&path, '/', &revision) || revision.len == 0 ||
        !unescape(revision, out->revision, sizeof(out->revision)))
        return false;
    /* A folder in a /tree/ address is ignored: a model is a whole repository. */
    if (lr_str_eq_z(mode, "tree") || path.len == 0)
        return true;
    return unescape(path, out->filename, sizeof(out->filename)) &&
           lr_path_safe(lr_str_z(out->filename));
}

lr_code hub_reference_parse(const struct hub_policy *policy, struct lr_str text,
                            struct hub_reference *out, struct lr_error *err)
{
    struct lr_str path = lr_str_trim(text);
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < path.len; i++) {
        if (path.ptr[i] == '?' || path.ptr[i] == '#')
            path.len = i; /* "?download=true", "#readme" */
    }
    if (strip_host(policy, &path) && read_path(path, out))
        return LR_OK;
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "repo is \"%.*s\"; \"org/name\" or an address like %s/org/name is expected",
                   (int)(text.len < 160 ? text.len : 160), text.len != 0 ? text.ptr : "",
                   policy->endpoint);
}

void hub_url_escape(struct lr_buf *out, struct lr_str text, bool keep_slash)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~' ||
            (keep_slash && c == '/'))
            lr_buf_add_char(out, (char)c);
        else
            lr_buf_addf(out, "%%%02X", c);
    }
}

void hub_url_resolve(struct lr_buf *out, const struct hub_policy *policy, struct lr_str repo,
                     struct lr_str commit, struct lr_str name)
{
    lr_buf_addf(out, "%s/", policy->endpoint);
    hub_url_escape(out, repo, true);
    lr_buf_add_z(out, "/resolve/");
    hub_url_escape(out, commit, false);
    lr_buf_add_char(out, '/');
    hub_url_escape(out, name, true);
}
