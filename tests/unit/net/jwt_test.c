/* Tokens and keys of an OpenID provider: what is refused, and what reading them costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/base64.h"
#include "net/jwk.h"
#include "net/jwt.h"

/* RFC 8037, appendix A.4: a key and a token that it has signed. */
static const char keys[] = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"one\","
                           "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
static const char signed_text[] = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
static const char signature_text[] =
    "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

static struct net_jwks *parse_keys(const char *text)
{
    struct net_jwks *set = NULL;
    struct lr_error err;
    assert_int_equal(net_jwks_parse(lr_str_z(text), &set, &err), LR_OK);
    return set;
}

static lr_code verify(const struct net_jwks *set, const char *algorithm, const char *id,
                      const char *text, const char *signature)
{
    unsigned char bytes[256];
    size_t len = 0;
    assert_true(lr_base64url_read(lr_str_z(signature), bytes, &len));
    return net_jwks_verify(set, lr_str_z(algorithm), lr_str_z(id), lr_str_z(text),
                           lr_str((const char *)bytes, len), NULL);
}

static void only_the_right_key_text_and_algorithm_verify(void **state)
{
    struct net_jwks *set = parse_keys(keys);
    char other[sizeof(signed_text)];
    (void)state;
    assert_int_equal(verify(set, "EdDSA", "one", signed_text, signature_text), LR_OK);
    assert_int_equal(verify(set, "EdDSA", "", signed_text, signature_text), LR_OK);
    assert_int_equal(verify(set, "EdDSA", "two", signed_text, signature_text), LR_NOT_FOUND);
    assert_int_equal(verify(set, "RS256", "one", signed_text, signature_text), LR_NOT_FOUND);
    assert_int_equal(verify(set, "none", "one", signed_text, ""), LR_UNSUPPORTED);
    assert_int_equal(verify(set, "HS256", "one", signed_text, signature_text), LR_UNSUPPORTED);
    assert_int_equal(verify(set, "EdDSA", "one", signed_text, ""), LR_UNAUTHENTICATED);
    memcpy(other, signed_text, sizeof(other));
    other[30] ^= 1;
    assert_int_equal(verify(set, "EdDSA", "one", other, signature_text), LR_UNAUTHENTICATED);
    net_jwks_free(set);
}

static void keys_of_other_kinds_and_unsafe_keys_are_left_out(void **state)
{
    struct net_jwks *set = NULL;
    (void)state;
    static const char *const bad[] = {
        "{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}",
        "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}", /* 17 bits */
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}",
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}",
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"use\":\"enc\","
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}",
        "7",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), "{\"keys\":[%s]}", bad[i]);
        set = parse_keys(text);
        assert_int_equal(net_jwks_count(set), 0);
        net_jwks_free(set);
    }
    assert_int_equal(net_jwks_parse(LR_STR_LIT("{}"), &set, NULL), LR_INVALID_ARGUMENT);
    assert_int_equal(net_jwks_parse(LR_STR_LIT("[]"), &set, NULL), LR_INVALID_ARGUMENT);
}

static lr_code parse(const char *text)
{
    struct lr_arena arena;
    struct net_jwt token;
    lr_arena_init(&arena, 4 << 20);
    lr_code code = net_jwt_parse(&arena, lr_str_z(text), &token, NULL);
    lr_arena_free(&arena);
    return code;
}

static void a_token_has_three_parts_of_base64url_and_two_objects(void **state)
{
    (void)state;
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiJ9.e30.AA"), LR_OK);
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiJ9.e30"), LR_INVALID_ARGUMENT);
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiJ9.e30.AA.AA"), LR_INVALID_ARGUMENT);
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiJ9.e30.AA."), LR_INVALID_ARGUMENT);
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiJ9.W10.AA"), LR_INVALID_ARGUMENT); /* [] */
    assert_int_equal(parse("e30.e30.AA"), LR_INVALID_ARGUMENT);                  /* no alg */
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiJ9.e3+.AA"), LR_INVALID_ARGUMENT);
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiJ9.e30=.AA"), LR_INVALID_ARGUMENT);
    assert_int_equal(parse("eyJhbGciOiJFUzI1NiIsImNyaXQiOlsieCJdfQ.e30.AA"),
                     LR_INVALID_ARGUMENT); /* crit */
    assert_int_equal(parse(""), LR_INVALID_ARGUMENT);
    char *large = malloc(NET_JWT_BYTES + 2);
    assert_non_null(large);
    memset(large, 'A', NET_JWT_BYTES + 1);
    large[NET_JWT_BYTES + 1] = '\0';
    assert_int_equal(parse(large), LR_TOO_LARGE);
    free(large);
}

/* Processor time of `rounds` calls. */
static double time_of(void (*fn)(const char *text), const char *text, int rounds)
{
    struct timespec from, to;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < rounds; i++)
        fn(text);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* A token whose claims are a list of many groups. */
static char *make_token(size_t groups)
{
    struct lr_buf claims, token;
    lr_buf_init(&claims, NET_JWT_BYTES);
    lr_buf_init(&token, 2 * NET_JWT_BYTES);
    lr_buf_add_z(&claims, "{\"groups\":[");
    for (size_t i = 0; i < groups; i++)
        lr_buf_addf(&claims, "%s\"group-%zu\"", i != 0 ? "," : "", i);
    lr_buf_add_z(&claims, "]}");
    lr_buf_add_z(&token, "eyJhbGciOiJFUzI1NiJ9.");
    lr_base64url_add(&token, (const unsigned char *)claims.data, claims.len);
    lr_buf_add_z(&token, ".AA");
    char *text = strdup(lr_buf_z(&token));
    lr_buf_free(&claims);
    lr_buf_free(&token);
    assert_non_null(text);
    return text;
}

static char *make_keys(size_t count)
{
    struct lr_buf out;
    lr_buf_init(&out, NET_JWKS_BYTES);
    lr_buf_add_z(&out, "{\"keys\":[");
    for (size_t i = 0; i < count; i++)
        lr_buf_addf(&out, "%s{\"kty\":\"unknown\",\"kid\":\"key-%zu\"}", i != 0 ? "," : "", i);
    lr_buf_add_z(&out, "]}");
    char *text = strdup(lr_buf_z(&out));
    lr_buf_free(&out);
    assert_non_null(text);
    return text;
}

static void read_token(const char *text)
{
    assert_int_equal(parse(text), LR_OK);
}

static void read_keys(const char *text)
{
    net_jwks_free(parse_keys(text));
}

/* The best of several measurements, so that a busy machine does not count. */
static double growth(void (*fn)(const char *text), const char *small, const char *large)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double few = time_of(fn, small, 160) / (double)strlen(small) / 160;
        double many = time_of(fn, large, 10) / (double)strlen(large) / 10;
        best = many / few < best ? many / few : best;
    }
    return best;
}

static void the_cost_of_a_byte_does_not_grow_with_the_length(void **state)
{
    char *small = make_token(200), *large = make_token(3200);
    (void)state;
    assert_true(strlen(large) > 15 * strlen(small) && strlen(large) <= NET_JWT_BYTES);
    assert_true(growth(read_token, small, large) < 3);
    free(small);
    free(large);
    small = make_keys(500);
    large = make_keys(8000);
    assert_true(growth(read_keys, small, large) < 3);
    free(small);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_right_key_text_and_algorithm_verify),
        cmocka_unit_test(keys_of_other_kinds_and_unsafe_keys_are_left_out),
        cmocka_unit_test(a_token_has_three_parts_of_base64url_and_two_objects),
        cmocka_unit_test(the_cost_of_a_byte_does_not_grow_with_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
