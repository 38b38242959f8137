/* hub/escape.c - the addresses that we build. */
#include <ctype.h>

#include "hub/url.h"

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
