#include "hub/reference.h"

#include <ctype.h>
#include <stdio.h>

#include "base/file.h"
#include "hub/build.h"
#include "hub/quant.h"

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

/* "org/name" with both parts valid, into out->repo. */
static bool set_repo(struct lr_str owner, struct lr_str name, struct hub_reference *out)
{
    if (owner.len + name.len + 2 > sizeof(out->repo))
        return false;
    if (memchr(owner.ptr, '\0', owner.len) != NULL || memchr(name.ptr, '\0', name.len) != NULL)
        return false; /* what follows would be left out in silence */
    memcpy(out->repo, owner.ptr, owner.len);
    out->repo[owner.len] = '/';
    memcpy(out->repo + owner.len + 1, name.ptr, name.len);
    return hub_repo_valid(lr_str_z(out->repo));
}

static bool is_weights_file(struct lr_str name)
{
    return lr_str_ends(name, ".gguf") || lr_str_ends(name, ".safetensors") ||
           lr_str_ends(name, ".safetensors.index.json");
}

/* A name of one part: letters, digits, '-', '_', '.'. */
static bool set_quant(struct lr_str text, struct hub_reference *out)
{
    if (text.len >= sizeof(out->quant) || !name_valid(text))
        return false;
    LR_COPY(out->quant, text);
    return true;
}

/* ":Q4_K_M", ":latest", "@Q4_K_M" (a quantization) or "@v1.0" (a revision) behind a name. */
static bool read_tag(struct lr_str *name, struct hub_reference *out)
{
    size_t at = lr_str_find_char(*name, '@'), colon = lr_str_find_char(*name, ':');
    size_t cut = at < colon ? at : colon;
    if (cut == LR_STR_NONE)
        return true;
    struct lr_str tag = lr_str_sub(*name, cut + 1, name->len);
    char mark = name->ptr[cut];
    *name = lr_str_sub(*name, 0, cut);
    if (lr_str_eq_nocase(tag, LR_STR_LIT("latest")))
        return true;
    if (mark == ':' || hub_quant_is(tag))
        return set_quant(tag, out);
    if (!name_valid(tag) || tag.len >= sizeof(out->revision))
        return false;
    LR_COPY(out->revision, tag);
    return true;
}

static bool set_file(struct lr_str path, struct hub_reference *out)
{
    return unescape(path, out->filename, sizeof(out->filename)) &&
           lr_path_safe(lr_str_z(out->filename));
}

/* What stands behind org/name: tree/REVISION[/FOLDER], blob/REVISION/FILE, or FILE. */
static bool read_rest(struct lr_str path, struct hub_reference *out)
{
    struct lr_str mode, revision, whole = path;
    if (lr_str_ends(path, ":latest"))
        whole = path = lr_str_sub(path, 0, path.len - (sizeof(":latest") - 1));
    if (!lr_str_split(&path, '/', &mode))
        return true;
    if (!has_mode(mode))
        return is_weights_file(whole) && set_file(whole, out);
    if (!lr_str_split(&path, '/', &revision) || revision.len == 0 ||
        !unescape(revision, out->revision, sizeof(out->revision)))
        return false;
    /* A folder in a /tree/ address is ignored, for a model is a whole repository; but a folder
     * called as a quantization is that quantization. */
    if (lr_str_eq_z(mode, "tree") && hub_quant_is(path))
        return set_quant(path, out);
    return lr_str_eq_z(mode, "tree") || path.len == 0 || set_file(path, out);
}

static bool read_repo(struct lr_str path, struct hub_reference *out)
{
    struct lr_str owner, name;
    while (lr_str_ends(path, "/"))
        path.len--;
    return lr_str_split(&path, '/', &owner) && lr_str_split(&path, '/', &name) &&
           read_tag(&name, out) && set_repo(owner, name, out) && read_rest(path, out);
}

static bool is_path(struct lr_str text)
{
    bool is_drive = text.len > 2 && isalpha((unsigned char)text.ptr[0]) && text.ptr[1] == ':' &&
                    (text.ptr[2] == '/' || text.ptr[2] == '\\');
    size_t slash = lr_str_find_char(text, '/');
    bool is_deep = slash != LR_STR_NONE &&
                   lr_str_find_char(lr_str_sub(text, slash + 1, text.len), '/') != LR_STR_NONE;
    return strchr("/.~", text.ptr[0]) != NULL || is_drive ||
           lr_str_find_char(text, '\\') != LR_STR_NONE ||
           (lr_str_ends(text, ".gguf") && !is_deep);
}

/* Models of Ollama's library are not there: what is left are words to search for. */
static bool strip_library(struct lr_str *text)
{
    static const char *const hosts[] = {"ollama.com/", "www.ollama.com/", "registry.ollama.ai/",
                                        "library/"};
    struct lr_str rest = *text;
    bool found = false;
    size_t scheme = lr_str_find(rest, LR_STR_LIT("://"));
    if (scheme != LR_STR_NONE)
        rest = lr_str_sub(rest, scheme + 3, rest.len);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        found = found || lr_str_starts(rest, hosts[i]);
    while (lr_str_ends(rest, "/"))
        rest.len--;
    size_t last = rest.len;
    while (last > 0 && rest.ptr[last - 1] != '/')
        last--;
    if (found && last < rest.len)
        *text = lr_str_sub(rest, last, rest.len);
    return found && last < rest.len;
}

static lr_code fail_reference(const struct hub_policy *policy, struct lr_str text,
                              struct lr_error *err)
{
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "repo is \"%.*s\"; \"org/name\" or an address like %s/org/name is expected",
                   (int)(text.len < 160 ? text.len : 160), text.len != 0 ? text.ptr : "",
                   policy->endpoint);
}

static bool is_clean(struct lr_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F)
            return false;
    return text.len != 0;
}

lr_code hub_reference_read(const struct hub_policy *policy, struct lr_str text,
                           struct hub_reference *out, struct lr_error *err)
{
    struct lr_str path = lr_str_trim(text);
    memset(out, 0, sizeof(*out));
    if (!is_clean(path))
        return fail_reference(policy, text, err);
    out->text = path;
    if (strip_library(&path)) {
        out->kind = HUB_REFERENCE_WORDS;
    } else if (is_path(path)) {
        out->kind = HUB_REFERENCE_PATH;
        return LR_OK;
    } else if (lr_str_find_char(path, '/') == LR_STR_NONE ||
               lr_str_find_char(path, ' ') != LR_STR_NONE) {
        out->kind = HUB_REFERENCE_WORDS;
    } else {
        for (size_t i = 0; i < path.len; i++) {
            if (path.ptr[i] == '?' || path.ptr[i] == '#')
                path.len = i; /* "?download=true", "#readme" */
        }
        out->kind = HUB_REFERENCE_REPO;
        return strip_host(policy, &path) && read_repo(path, out)
                   ? LR_OK
                   : fail_reference(policy, text, err);
    }
    if (lr_str_ends(path, ":latest"))
        path.len -= sizeof(":latest") - 1;
    out->text = path;
    return path.len != 0 ? LR_OK : fail_reference(policy, text, err);
}

lr_code hub_reference_parse(const struct hub_policy *policy, struct lr_str text,
                            struct hub_reference *out, struct lr_error *err)
{
    lr_code code = hub_reference_read(policy, text, out, err);
    return code == LR_OK && out->kind != HUB_REFERENCE_REPO ? fail_reference(policy, text, err)
                                                            : code;
}

/* The file's quantization; else its name without folder and ".gguf", in the letters of an id.
 */
static void label_of_file(struct lr_str file, char out[HUB_QUANT_MAX])
{
    struct lr_str stem = lr_str_sub(file, 0, file.len - strlen(".gguf"));
    struct hub_shard shard;
    if (hub_build_shard(file, ".gguf", &shard))
        stem = shard.stem;
    struct lr_str label = hub_quant_of(stem);
    size_t slash = file.len;
    while (slash > 0 && file.ptr[slash - 1] != '/')
        slash--;
    if (label.len == 0)
        label = lr_str_sub(file, slash, stem.len);
    lr_str_copy(out, HUB_QUANT_MAX, lr_str_sub(label, 0, HUB_QUANT_MAX - 1));
    for (char *c = out; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("-_.", *c) == NULL)
            *c = '-';
}

static void write_name(const struct hub_reference *ref, const char *between,
                       char out[HUB_REFERENCE_NAME_MAX])
{
    char label[HUB_QUANT_MAX];
    LR_COPY(label, lr_str_z(ref->quant));
    if (label[0] == '\0' && lr_str_ends(lr_str_z(ref->filename), ".gguf"))
        label_of_file(lr_str_z(ref->filename), label);
    (void)snprintf(out, HUB_REFERENCE_NAME_MAX, "%s%s%s", ref->repo,
                   label[0] != '\0' ? between : "", label);
}

void hub_reference_name(const struct hub_reference *ref, char out[HUB_REFERENCE_NAME_MAX])
{
    write_name(ref, ":", out);
}

void hub_reference_id(const struct hub_reference *ref, char out[HUB_REFERENCE_NAME_MAX])
{
    write_name(ref, "-", out);
}
