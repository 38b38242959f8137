#include "net/jwt.h"

#include "base/base64.h"

static lr_code jwt_decode(struct lr_arena *arena, struct lr_str part, const char *what,
                          struct lr_str *out, struct lr_error *err)
{
    unsigned char *bytes = lr_arena_alloc(arena, lr_base64url_room(part.len));
    size_t len;
    if (bytes == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a token");
    if (!lr_base64url_read(part, bytes, &len))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the token's %s is not base64url", what);
    *out = lr_str((const char *)bytes, len);
    return LR_OK;
}

static lr_code jwt_read_object(struct lr_arena *arena, struct lr_str part, const char *what,
                               const struct lr_json **out, struct lr_error *err)
{
    const struct lr_json_limits limits = {.max_depth = 16};
    struct lr_str text;
    lr_code code = jwt_decode(arena, part, what, &text, err);
    if (code != LR_OK)
        return code;
    if (lr_json_parse(arena, text, &limits, out, err) != LR_OK)
        return lr_fail_prefix(err, "the token's %s", what);
    return (*out)->type == LR_JSON_OBJECT
               ? LR_OK
               : lr_fail(err, LR_INVALID_ARGUMENT, "the token's %s must be an object", what);
}

lr_code net_jwt_parse(struct lr_arena *arena, struct lr_str token, struct net_jwt *out,
                      struct lr_error *err)
{
    const struct lr_json *header, *id;
    struct lr_str rest = token, parts[3];
    *out = (struct net_jwt){0};
    if (token.len > NET_JWT_BYTES)
        return lr_fail(err, LR_TOO_LARGE, "the token has %zu bytes, and %d are allowed",
                       token.len, NET_JWT_BYTES);
    for (size_t i = 0; i < 3; i++)
        if (!lr_str_split(&rest, '.', &parts[i]))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "a token has three parts with dots between them");
    if (parts[2].len != token.len - parts[0].len - parts[1].len - 2)
        return lr_fail(err, LR_INVALID_ARGUMENT, "a token has three parts, not more");
    lr_code code = jwt_read_object(arena, parts[0], "header", &header, err);
    if (code == LR_OK)
        code = jwt_read_object(arena, parts[1], "claims", &out->claims, err);
    if (code == LR_OK)
        code = jwt_decode(arena, parts[2], "signature", &out->signature, err);
    if (code != LR_OK)
        return code;
    if (!lr_json_str(lr_json_get(header, "alg"), &out->algorithm))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the token's header has no \"alg\"");
    if (lr_json_get(header, "crit") != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the token's header has extensions that are not known here");
    id = lr_json_get(header, "kid");
    if (id != NULL && !lr_json_str(id, &out->key_id))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the token's \"kid\" must be a string");
    out->signed_text = lr_str(token.ptr, parts[0].len + 1 + parts[1].len);
    return LR_OK;
}
