/* Networks, and the client's address behind a chain of proxies. */
#include "net/cidr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct net_cidrs nets(const char *a, const char *b)
{
    struct net_cidrs out = {0};
    assert_int_equal(net_cidr_parse(a, &out.items[out.count++], NULL), LR_OK);
    if (b != NULL)
        assert_int_equal(net_cidr_parse(b, &out.items[out.count++], NULL), LR_OK);
    return out;
}

static void a_network_has_its_addresses_and_no_others(void **state)
{
    (void)state;
    struct net_cidrs n = nets("10.2.0.0/15", "fd00:1::/33");
    assert_true(net_cidrs_have(&n, "10.3.255.255"));
    assert_false(net_cidrs_have(&n, "10.1.255.255"));
    assert_false(net_cidrs_have(&n, "10.4.0.0"));
    assert_true(net_cidrs_have(&n, "::ffff:10.2.0.9"));
    assert_true(net_cidrs_have(&n, "fd00:1::1"));
    assert_false(net_cidrs_have(&n, "fd00:1:8000::1"));
    assert_false(net_cidrs_have(&n, "nonsense"));
    n = nets("0.0.0.0/0", NULL);
    assert_true(net_cidrs_have(&n, "8.8.8.8"));
    assert_false(net_cidrs_have(&n, "2001:db8::1"));
    n = nets("192.0.2.7", "::/0");
    assert_true(net_cidrs_have(&n, "2001:db8::1"));
}

static void what_is_no_network_is_refused(void **state)
{
    static const char *const bad[] = {"",          "/8",          "10.0.0.0/33",
                                      "10.0.0.0/", "10.0.0/8",    "fd00::/129",
                                      "a.b.c.d",   "10.0.0.0/-1", "10.0.0.0/8/8"};
    struct net_cidr out;
    struct lr_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(net_cidr_parse(bad[i], &out, &err), LR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, "ADDRESS/BITS"));
    }
}

static void addresses_are_the_same_however_they_are_written(void **state)
{
    (void)state;
    assert_true(net_same_address("192.0.2.1", "::ffff:192.0.2.1"));
    assert_true(net_same_address("2001:db8::1", "2001:0db8:0:0::1"));
    assert_true(net_same_address("127.0.0.1", "::1"));
    assert_false(net_same_address("192.0.2.1", "192.0.2.2"));
    assert_false(net_same_address("localhost", "localhost"));
}

static void client_is(const char *wanted, const char *remote, const char *first_name,
                      const char *first, const char *second_name, const char *second)
{
    struct net_cidrs trusted = nets("10.0.0.0/8", "2001:db8::/32");
    struct net_header headers[2];
    struct net_headers all = {headers, 0};
    char out[NET_ADDRESS_TEXT];
    if (first_name != NULL)
        headers[all.count++] = (struct net_header){lr_str_z(first_name), lr_str_z(first)};
    if (second_name != NULL)
        headers[all.count++] = (struct net_header){lr_str_z(second_name), lr_str_z(second)};
    net_forwarded_client(all, remote, &trusted, out);
    assert_string_equal(out, wanted);
}

static void the_last_address_that_no_trusted_proxy_has_is_the_client(void **state)
{
    const char *xff = "X-Forwarded-For";
    (void)state;
    client_is("10.0.0.1", "10.0.0.1", NULL, NULL, NULL, NULL);
    client_is("203.0.113.1", "203.0.113.1", xff, "198.51.100.1", NULL, NULL);
    client_is("198.51.100.1", "10.0.0.1", xff, "198.51.100.1", NULL, NULL);
    client_is("198.51.100.1", "10.0.0.1", xff, "1.1.1.1, 198.51.100.1 ,10.0.0.9", NULL, NULL);
    client_is("198.51.100.1", "10.0.0.1", xff, "1.1.1.1, 198.51.100.1", xff, "10.0.0.9");
    client_is("198.51.100.1", "10.0.0.1", xff, "198.51.100.1:4711", NULL, NULL);
    client_is("10.0.0.9", "10.0.0.1", xff, "1.1.1.1, unknown, 10.0.0.9", NULL, NULL);
    client_is("10.0.0.1", "10.0.0.1", xff, "", NULL, NULL);
    client_is("fe80::5", "10.0.0.1", "forwarded",
              "for=1.1.1.1, For=\"[fe80::5]:80\";proto=https", NULL, NULL);
    client_is("192.0.2.60", "2001:db8::9", "Forwarded", "by=x;for=192.0.2.60, for=10.1.1.1",
              NULL, NULL);
    client_is("192.0.2.1", "10.0.0.1", "Forwarded", "for=1.1.1.1", xff, "192.0.2.1");
}

static void headers_of_proxies_are_known(void **state)
{
    static const char *const good[] = {"Host", "X-Forward", "Viable", "X-Request-Id"};
    static const char *const bad[] = {"Forwarded", "VIA", "x-real-ip", "X-Forwarded-For",
                                      "x-forwarded-anything"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct net_header h = {lr_str_z(good[i]), lr_str_z("x")};
        assert_null(net_forwarded_header((struct net_headers){&h, 1}));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct net_header h = {lr_str_z(bad[i]), lr_str_z("x")};
        assert_ptr_equal(net_forwarded_header((struct net_headers){&h, 1}), &h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_has_its_addresses_and_no_others),
        cmocka_unit_test(what_is_no_network_is_refused),
        cmocka_unit_test(addresses_are_the_same_however_they_are_written),
        cmocka_unit_test(the_last_address_that_no_trusted_proxy_has_is_the_client),
        cmocka_unit_test(headers_of_proxies_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
