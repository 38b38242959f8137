/* SHA-256 and random ids. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "base/sha256.h"
#include "base/sha256_internal.h"
#include "tests/unit/base/support.h"

static void hash_in_pieces(const char *text, size_t len, size_t piece, bool plain, char hex[65])
{
    struct lr_sha256 h;
    unsigned char digest[LR_SHA256_LEN];
    lr_sha256_init(&h);
    h.plain = plain;
    for (size_t at = 0; at < len; at += piece)
        lr_sha256_add(&h, text + at, len - at < piece ? len - at : piece);
    lr_sha256_end(&h, digest);
    lr_sha256_hex(digest, hex);
}

/* FIPS 180-4 examples, and the empty message. */
static void known_digests_come_out_on_both_paths(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
         "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[65];
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        size_t len = strlen(vectors[i].text);
        for (int plain = 0; plain < 2; plain++) {
            hash_in_pieces(vectors[i].text, len, 1000, plain, hex);
            assert_string_equal(hex, vectors[i].digest);
            hash_in_pieces(vectors[i].text, len, 1, plain, hex);
            assert_string_equal(hex, vectors[i].digest);
        }
    }
}

static void a_million_letters_hash_as_published(void **state)
{
    (void)state;
    char hex[65], *text = malloc(1000000);
    assert_non_null(text);
    memset(text, 'a', 1000000);
    for (int plain = 0; plain < 2; plain++) {
        hash_in_pieces(text, 1000000, 999, plain, hex);
        assert_string_equal(hex,
                            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
    free(text);
}

static void both_paths_agree_for_every_length_and_split(void **state)
{
    (void)state;
    char text[300], whole[65], other[65];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 31 + 7);
    for (size_t len = 0; len <= sizeof(text); len++) {
        hash_in_pieces(text, len, 1000, true, whole);
        for (size_t piece = 1; piece < 200; piece += 21) {
            hash_in_pieces(text, len, piece, false, other);
            assert_string_equal(whole, other);
        }
    }
    print_message("SHA extensions: %s\n", lr_sha256_has_ni() ? "used" : "not on this CPU");
}

static void hex_is_read_back_and_checked(void **state)
{
    (void)state;
    unsigned char a[LR_SHA256_LEN], b[LR_SHA256_LEN];
    char hex[65];
    lr_sha256_of(lr_str_z("x"), a);
    lr_sha256_hex(a, hex);
    assert_true(lr_sha256_parse(lr_str_z(hex), b));
    assert_memory_equal(a, b, sizeof(a));
    hex[10] = 'g';
    assert_false(lr_sha256_parse(lr_str_z(hex), b));
    assert_false(lr_sha256_parse(lr_str(hex, 63), b));
}

static void ids_use_their_alphabet_and_differ(void **state)
{
    (void)state;
    char a[23], b[23], hex[34];
    hex[33] = '!';
    lr_random_base62(a, 22);
    lr_random_base62(b, 22);
    assert_int_equal(strlen(a), 22);
    assert_int_equal(
        strspn(a, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), 22);
    assert_string_not_equal(a, b);
    lr_random_hex(hex, 32);
    assert_int_equal(strspn(hex, "0123456789abcdef"), 32);
    assert_int_equal(hex[33], '!');
}

/* 62,000 random digits, 1,000 expected of each of 62, sigma 31: six sigma is 190. */
static void every_digit_is_as_likely(void **state)
{
    (void)state;
    static char text[62001];
    int seen[256] = {0};
    lr_random_base62(text, 62000);
    for (int i = 0; i < 62000; i++)
        seen[(unsigned char)text[i]]++;
    for (int c = 0; c < 256; c++)
        if (seen[c] != 0)
            assert_in_range(seen[c], 810, 1190);
    for (int i = 0; i < 1000; i++)
        assert_true(lr_random_below(7) < 7);
    assert_int_equal(lr_random_below(1), 0);
}

/* Several times, because the pool of random bytes may just have been used up. */
static void a_child_process_makes_other_random_ids_than_its_parent(void **state)
{
    (void)state;
    char ours[23], theirs[23] = "";
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    for (int i = 0; i < 4; i++) {
        lr_random_base62(ours, 22);
        pid_t child = fork();
        if (child == 0) {
            lr_random_base62(theirs, 22);
            _exit(write(pipes[1], theirs, sizeof(theirs)) == sizeof(theirs) ? 0 : 1);
        }
        lr_random_base62(ours, 22);
        assert_true(read(pipes[0], theirs, sizeof(theirs)) == sizeof(theirs));
        assert_string_not_equal(ours, theirs);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

/* RFC 4231, cases 1, 2 and 6: a short key, a text in two parts, a key longer than a block. */
static void known_hmacs_come_out(void **state)
{
    unsigned char digest[LR_SHA256_LEN];
    char hex[65], key[131];
    (void)state;
    memset(key, 0x0b, 20);
    lr_hmac_sha256(lr_str(key, 20), (const struct lr_str[]){LR_STR_LIT("Hi There")}, 1, digest);
    lr_sha256_hex(digest, hex);
    assert_string_equal(hex,
                        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    const struct lr_str parts[] = {LR_STR_LIT("what do ya want "), LR_STR_LIT("for nothing?")};
    lr_hmac_sha256(LR_STR_LIT("Jefe"), parts, 2, digest);
    lr_sha256_hex(digest, hex);
    assert_string_equal(hex,
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    struct lr_str text = LR_STR_LIT("Test Using Larger Than Block-Size Key - Hash Key First");
    lr_hmac_sha256(lr_str(key, sizeof(key)), &text, 1, digest);
    lr_sha256_hex(digest, hex);
    assert_string_equal(hex,
                        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_hmacs_come_out),
        cmocka_unit_test(known_digests_come_out_on_both_paths),
        cmocka_unit_test(a_million_letters_hash_as_published),
        cmocka_unit_test(both_paths_agree_for_every_length_and_split),
        cmocka_unit_test(hex_is_read_back_and_checked),
        cmocka_unit_test(ids_use_their_alphabet_and_differ),
        cmocka_unit_test(every_digit_is_as_likely),
        cmocka_unit_test(a_child_process_makes_other_random_ids_than_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
