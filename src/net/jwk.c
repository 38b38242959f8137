#include "net/jwk.h"

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/json.h"

enum {
    ARENA_BYTES = 16 * NET_JWKS_BYTES,
    RSA_BITS_MIN = 2048,
    RSA_BITS_MAX = 8192, /* a larger key costs too much time */
    NUMBER_BYTES = RSA_BITS_MAX / 8 + 8,
};

enum kind { KIND_RSA, KIND_P256, KIND_P384, KIND_ED25519 };

static const struct algorithm {
    const char *name;
    enum kind kind;
    const char *digest; /* NULL: the algorithm has its own */
    bool is_pss;
} algorithms[] = {
    {"RS256", KIND_RSA, "SHA256", false},  {"RS384", KIND_RSA, "SHA384", false},
    {"RS512", KIND_RSA, "SHA512", false},  {"PS256", KIND_RSA, "SHA256", true},
    {"PS384", KIND_RSA, "SHA384", true},   {"PS512", KIND_RSA, "SHA512", true},
    {"ES256", KIND_P256, "SHA256", false}, {"ES384", KIND_P384, "SHA384", false},
    {"EdDSA", KIND_ED25519, NULL, false},
};

struct key {
    enum kind kind;
    EVP_PKEY *pkey; /* owned */
    char id[NET_JWK_ID + 1];
    char algorithm[16]; /* the only one that the key is for; "": any of its kind */
};

struct net_jwks {
    struct key keys[NET_JWKS_MAX];
    size_t count;
};

static const struct algorithm *find_algorithm(struct lr_str name)
{
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
        if (lr_str_eq_z(name, algorithms[i].name))
            return &algorithms[i];
    return NULL;
}

/* ---- reading ---- */

/* A member in base64url; 0: it is absent, broken or too long. */
static size_t read_bytes(const struct lr_json *jwk, const char *name,
                         unsigned char out[NUMBER_BYTES])
{
    struct lr_str text;
    size_t len;
    if (!lr_json_str(lr_json_get(jwk, name), &text) ||
        lr_base64url_room(text.len) > NUMBER_BYTES || !lr_base64url_read(text, out, &len))
        return 0;
    return len;
}

static bool is(const struct lr_json *jwk, const char *name, const char *value)
{
    struct lr_str text;
    return lr_json_str(lr_json_get(jwk, name), &text) && lr_str_eq_z(text, value);
}

static EVP_PKEY *jwk_build(const char *type, OSSL_PARAM_BLD *builder)
{
    EVP_PKEY *pkey = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    if (ctx == NULL || params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_PUBLIC_KEY, params) != 1)
        pkey = NULL;
    OSSL_PARAM_free(params);
    EVP_PKEY_CTX_free(ctx);
    return pkey;
}

static EVP_PKEY *read_rsa(const struct lr_json *jwk)
{
    unsigned char n[NUMBER_BYTES], e[NUMBER_BYTES];
    size_t n_len = read_bytes(jwk, "n", n), e_len = read_bytes(jwk, "e", e);
    if (n_len == 0 || e_len == 0 || e_len > 8)
        return NULL; /* a long exponent makes each check slow */
    EVP_PKEY *pkey = NULL;
    BIGNUM *bn_n = BN_bin2bn(n, (int)n_len, NULL), *bn_e = BN_bin2bn(e, (int)e_len, NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (bn_n != NULL && bn_e != NULL && builder != NULL && BN_num_bits(bn_n) >= RSA_BITS_MIN &&
        BN_num_bits(bn_n) <= RSA_BITS_MAX && BN_is_odd(bn_n) && BN_is_odd(bn_e) &&
        !BN_is_one(bn_e) && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, bn_n) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, bn_e) == 1)
        pkey = jwk_build("RSA", builder);
    OSSL_PARAM_BLD_free(builder);
    BN_free(bn_n);
    BN_free(bn_e);
    return pkey;
}

static EVP_PKEY *read_curve(const struct lr_json *jwk, const char *group, size_t size)
{
    unsigned char x[NUMBER_BYTES], y[NUMBER_BYTES], point[1 + 2 * 48];
    EVP_PKEY *pkey = NULL;
    if (read_bytes(jwk, "x", x) != size || read_bytes(jwk, "y", y) != size)
        return NULL;
    point[0] = 4; /* uncompressed */
    memcpy(point + 1, x, size);
    memcpy(point + 1 + size, y, size);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (builder != NULL &&
        OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point,
                                         1 + 2 * size) == 1)
        pkey = jwk_build("EC", builder); /* refuses a point that is not on the curve */
    OSSL_PARAM_BLD_free(builder);
    return pkey;
}

static EVP_PKEY *read_ed25519(const struct lr_json *jwk)
{
    unsigned char x[NUMBER_BYTES];
    size_t len = read_bytes(jwk, "x", x);
    return len == 32 ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, len) : NULL;
}

static EVP_PKEY *read_pkey(const struct lr_json *jwk, enum kind *kind)
{
    if (is(jwk, "kty", "RSA")) {
        *kind = KIND_RSA;
        return read_rsa(jwk);
    }
    if (is(jwk, "kty", "EC") && is(jwk, "crv", "P-256")) {
        *kind = KIND_P256;
        return read_curve(jwk, "P-256", 32);
    }
    if (is(jwk, "kty", "EC") && is(jwk, "crv", "P-384")) {
        *kind = KIND_P384;
        return read_curve(jwk, "P-384", 48);
    }
    if (is(jwk, "kty", "OKP") && is(jwk, "crv", "Ed25519")) {
        *kind = KIND_ED25519;
        return read_ed25519(jwk);
    }
    return NULL;
}

static void jwk_read_key(struct net_jwks *set, const struct lr_json *jwk)
{
    struct key *key = &set->keys[set->count];
    struct lr_str text;
    *key = (struct key){0};
    if (!lr_json_is(jwk, LR_JSON_OBJECT) || is(jwk, "use", "enc"))
        return;
    if (lr_json_str(lr_json_get(jwk, "kid"), &text)) {
        if (text.len > NET_JWK_ID)
            return;
        LR_COPY(key->id, text);
    }
    if (lr_json_str(lr_json_get(jwk, "alg"), &text)) {
        if (find_algorithm(text) == NULL)
            return;
        LR_COPY(key->algorithm, text);
    }
    key->pkey = read_pkey(jwk, &key->kind);
    set->count += key->pkey != NULL;
    ERR_clear_error();
}

lr_code net_jwks_parse(struct lr_str text, struct net_jwks **out, struct lr_error *err)
{
    const struct lr_json_limits limits = {.max_depth = 8, .max_bytes = NET_JWKS_BYTES};
    const struct lr_json *root = NULL, *list = NULL;
    struct lr_arena arena;
    *out = NULL;
    lr_arena_init(&arena, ARENA_BYTES);
    lr_code code = lr_json_parse(&arena, text, &limits, &root, err);
    if (code == LR_OK) {
        list = lr_json_get(root, "keys");
        if (!lr_json_is(list, LR_JSON_ARRAY))
            code = lr_fail(err, LR_INVALID_ARGUMENT,
                           "the key set must be an object with a list \"keys\"");
    }
    if (code == LR_OK && (*out = calloc(1, sizeof(**out))) == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for a key set");
    for (uint32_t i = 0; code == LR_OK && i < list->count && (*out)->count < NET_JWKS_MAX; i++)
        jwk_read_key(*out, &list->items[i]);
    lr_arena_free(&arena);
    return code;
}

void net_jwks_free(struct net_jwks *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->count; i++)
        EVP_PKEY_free(set->keys[i].pkey);
    free(set);
}

size_t net_jwks_count(const struct net_jwks *set)
{
    return set->count;
}

/* ---- checking ---- */

static bool fits(const struct key *key, const struct algorithm *algorithm, struct lr_str id)
{
    return key->kind == algorithm->kind && (id.len == 0 || lr_str_eq_z(id, key->id)) &&
           (key->algorithm[0] == '\0' || strcmp(key->algorithm, algorithm->name) == 0);
}

bool net_jwks_has(const struct net_jwks *set, struct lr_str algorithm, struct lr_str id)
{
    const struct algorithm *a = find_algorithm(algorithm);
    for (size_t i = 0; a != NULL && i < set->count; i++)
        if (fits(&set->keys[i], a, id))
            return true;
    return false;
}

/* A token has the two numbers of an ECDSA signature side by side, OpenSSL wants them in DER.
 * Returns the length; 0: it is no such signature. */
static size_t make_der(struct lr_str raw, size_t size, unsigned char out[160])
{
    unsigned char *at = out;
    int len = 0;
    if (raw.len != 2 * size)
        return 0;
    ECDSA_SIG *signature = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn((const unsigned char *)raw.ptr, (int)size, NULL);
    BIGNUM *s = BN_bin2bn((const unsigned char *)raw.ptr + size, (int)size, NULL);
    if (signature != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(signature, r, s) == 1) {
        r = s = NULL; /* now the signature's */
        len = i2d_ECDSA_SIG(signature, NULL);
        len = len > 0 && len <= 160 ? i2d_ECDSA_SIG(signature, &at) : 0;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(signature);
    return len > 0 ? (size_t)len : 0;
}

static bool set_padding(EVP_PKEY_CTX *ctx, const struct algorithm *algorithm)
{
    if (algorithm->kind != KIND_RSA)
        return true;
    if (!algorithm->is_pss)
        return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1;
    return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1;
}

static bool jwk_check(const struct key *key, const struct algorithm *algorithm,
                      struct lr_str text, struct lr_str signature)
{
    unsigned char der[160];
    if (algorithm->kind == KIND_P256 || algorithm->kind == KIND_P384) {
        signature.len = make_der(signature, algorithm->kind == KIND_P256 ? 32 : 48, der);
        signature.ptr = (const char *)der;
    }
    if (signature.len == 0)
        return false;
    EVP_PKEY_CTX *ctx = NULL;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool is_good = md != NULL &&
                   EVP_DigestVerifyInit_ex(md, &ctx, algorithm->digest, NULL, NULL, key->pkey,
                                           NULL) == 1 &&
                   set_padding(ctx, algorithm) &&
                   EVP_DigestVerify(md, (const unsigned char *)signature.ptr, signature.len,
                                    (const unsigned char *)text.ptr, text.len) == 1;
    EVP_MD_CTX_free(md);
    ERR_clear_error();
    return is_good;
}

lr_code net_jwks_verify(const struct net_jwks *set, struct lr_str algorithm, struct lr_str id,
                        struct lr_str text, struct lr_str signature, struct lr_error *err)
{
    const struct algorithm *a = find_algorithm(algorithm);
    bool has_key = false;
    if (a == NULL)
        return lr_fail(err, LR_UNSUPPORTED,
                       "the signature has the algorithm \"" LR_STR_FMT
                       "\"; RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA "
                       "are supported",
                       LR_STR_ARG(lr_str_sub(algorithm, 0, 40)));
    for (size_t i = 0; i < set->count; i++) {
        if (!fits(&set->keys[i], a, id))
            continue;
        has_key = true;
        if (jwk_check(&set->keys[i], a, text, signature))
            return LR_OK;
    }
    return has_key ? lr_fail(err, LR_UNAUTHENTICATED, "the signature is wrong")
                   : lr_fail(err, LR_NOT_FOUND,
                             "none of the %zu keys has the id \"" LR_STR_FMT "\" and is for %s",
                             set->count, LR_STR_ARG(lr_str_sub(id, 0, 100)), a->name);
}
