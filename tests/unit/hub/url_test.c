/* The hosts that may be contacted. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hub/client.h"

static struct hub_policy policy_of(const char *endpoint, const char *host)
{
    struct hub_policy policy;
    struct lr_error err;
    assert_int_equal(hub_policy_init(&policy, endpoint, &host, host != NULL, &err), LR_OK);
    return policy;
}

static void only_the_hubs_own_hosts_are_followed_by_default(void **state)
{
    static const char *const good[] = {
        "https://huggingface.co/api/models/a/b", "https://cdn-lfs-us-1.hf.co/x?Signature=a%2Bb",
        "https://cas-bridge.xethub.hf.co/x",     "https://CDN-LFS.HuggingFace.CO./x",
        "https://huggingface.co:443/x",
    };
    static const char *const bad[] = {
        "http://huggingface.co/x",
        "https://huggingface.co:8443/x",
        "https://evilhuggingface.co/x",
        "https://huggingface.co.evil.example/x",
        "https://hf.co.evil.example/x",
        "https://example.com/x",
        "https://127.0.0.1/x",
        "https://127.1/x",
        "https://2130706433/x",
        "https://0x7f000001/x",
        "https://0177.0.0.1/x",
        "https://[::1]/x",
        "https://[::ffff:127.0.0.1]/x",
        "http://169.254.169.254/latest/meta-data",
        "http://0xa9fea9fe/latest",
        "https://localhost/x",
        "file:///etc/passwd",
        "gopher://huggingface.co/x",
        "ftp://huggingface.co/x",
        "https://user@huggingface.co/x",
        "https://huggingface.co@127.0.0.1/x",
        "https://huggingface.co\\@127.0.0.1/x",
        "https://huggingface.co#@127.0.0.1/x",
        "https://127.0.0.1#.huggingface.co/x",
        "https://127.0.0.1 .huggingface.co/x",
        "https://huggingface.co:443:80/x",
        "https://huggingface.co:/x",
        "https://huggingface.co:0/x",
        "https://huggingface.co:99999/x",
        "https://huggingface%2eco/x",
        "https:///x",
        "https://.huggingface.co/x",
        "//huggingface.co/x",
        "",
    };
    struct hub_policy policy = policy_of(NULL, NULL);
    struct lr_error err;
    bool is_named;
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (hub_policy_check(&policy, lr_str_z(good[i]), &is_named, &err) != LR_OK)
            fail_msg("%s: %s", good[i], err.text);
        assert_false(is_named);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (hub_policy_check(&policy, lr_str_z(bad[i]), &is_named, &err) !=
            LR_PERMISSION_DENIED)
            fail_msg("followed: %s", bad[i]);
        assert_false(is_named);
    }
}

static void a_named_host_is_trusted_on_its_port_and_in_every_spelling(void **state)
{
    struct hub_policy policy = policy_of("http://10.0.0.7:8080", "cdn.example.com");
    struct lr_error err;
    bool is_named;
    (void)state;
    static const char *const good[] = {"http://10.0.0.7:8080/x", "http://167772167:8080/x",
                                       "http://0xa.7:8080/x", "https://cdn.example.com/x",
                                       "http://CDN.example.com/x"};
    static const char *const bad[] = {
        "http://10.0.0.7:8081/x", "https://10.0.0.7/x", "http://10.0.0.8:8080/x",
        "https://cdn.example.com:8443/x", "https://x.cdn.example.com/x"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (hub_policy_check(&policy, lr_str_z(good[i]), &is_named, &err) != LR_OK)
            fail_msg("%s: %s", good[i], err.text);
        assert_true(is_named);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (hub_policy_check(&policy, lr_str_z(bad[i]), &is_named, &err) == LR_OK)
            fail_msg("followed: %s", bad[i]);
    }
    assert_int_equal(
        hub_policy_check(&policy, lr_str_z("https://other.example.com/x"), &is_named, &err),
        LR_PERMISSION_DENIED);
    assert_non_null(strstr(err.text, "--hub-host other.example.com:443"));
}

static void the_token_belongs_to_the_endpoints_origin(void **state)
{
    struct hub_policy policy = policy_of("https://huggingface.co", NULL);
    (void)state;
    assert_true(hub_policy_is_endpoint(&policy, lr_str_z("https://huggingface.co/x")));
    assert_true(hub_policy_is_endpoint(&policy, lr_str_z("https://HUGGINGFACE.co:443/x")));
    assert_false(hub_policy_is_endpoint(&policy, lr_str_z("http://huggingface.co/x")));
    assert_false(hub_policy_is_endpoint(&policy, lr_str_z("https://huggingface.co:8443/x")));
    assert_false(hub_policy_is_endpoint(&policy, lr_str_z("https://cdn.huggingface.co/x")));
    assert_false(hub_policy_is_endpoint(&policy, lr_str_z("https://hf.co/x")));
}

static bool is_public(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return hub_address_is_public((const struct sockaddr *)&in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return hub_address_is_public((const struct sockaddr *)&in6);
}

static void addresses_that_are_not_public_are_known(void **state)
{
    static const char *const public[] = {"1.1.1.1",      "8.8.8.8",         "172.15.0.1",
                                         "172.32.0.1",   "100.63.0.1",      "100.128.0.1",
                                         "169.253.1.1",  "223.255.255.255", "2606:4700::1",
                                         "2a00:1450::1", "::ffff:1.1.1.1",  "64:ff9b::1.1.1.1"};
    static const char *const private[] = {"0.0.0.0",
                                          "10.1.2.3",
                                          "127.0.0.1",
                                          "127.255.0.9",
                                          "169.254.169.254",
                                          "172.16.0.1",
                                          "172.31.255.255",
                                          "192.168.1.1",
                                          "100.64.0.1",
                                          "100.100.100.200",
                                          "192.0.0.1",
                                          "198.18.0.1",
                                          "224.0.0.1",
                                          "255.255.255.255",
                                          "::",
                                          "::1",
                                          "fe80::1",
                                          "fc00::1",
                                          "fd00:ec2::254",
                                          "ff02::1",
                                          "::ffff:127.0.0.1",
                                          "::ffff:10.0.0.1",
                                          "64:ff9b::127.0.0.1",
                                          "64:ff9b::a9fe:a9fe",
                                          "2002:7f00:1::",
                                          "2001:0:1::1",
                                          "2001:db8::1",
                                          "::127.0.0.1",
                                          "::ffff:0:127.0.0.1",
                                          "fec0::1"};
    (void)state;
    for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++) {
        if (!is_public(public[i]))
            fail_msg("%s is public", public[i]);
    }
    for (size_t i = 0; i < sizeof(private) / sizeof(private[0]); i++) {
        if (is_public(private[i]))
            fail_msg("%s is not public", private[i]);
    }
    struct sockaddr other = {.sa_family = AF_UNIX};
    assert_false(hub_address_is_public(&other));
}

static void every_spelling_of_an_address_is_read(void **state)
{
    static const struct {
        const char *text;
        uint32_t address;
    } good[] = {
        {"127.0.0.1", 0x7F000001},    {"127.1", 0x7F000001},       {"2130706433", 0x7F000001},
        {"0x7f.0.0.1", 0x7F000001},   {"0x7F000001", 0x7F000001},  {"0177.0.0.01", 0x7F000001},
        {"017700000001", 0x7F000001}, {"10.0x10.257", 0x0A100101}, {"127.0.0.1.", 0x7F000001}};
    static const char *const bad[] = {"",     ".",         "1.2.3.4.5",  "256.1.1.1",
                                      "1..2", "08.1.1.1",  "4294967296", "1.2.3.x",
                                      "a.b",  "1.16777216"};
    uint32_t address;
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(hub_host_ipv4(lr_str_z(good[i].text), &address));
        assert_int_equal(address, good[i].address);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (hub_host_ipv4(lr_str_z(bad[i]), &address))
            fail_msg("%s is no address", bad[i]);
    }
}

static void a_malformed_setting_names_itself(void **state)
{
    struct hub_policy policy;
    struct lr_error err;
    const char *hosts[] = {"good.example.com", "bad host"};
    (void)state;
    assert_int_equal(hub_policy_init(&policy, "huggingface.co", NULL, 0, &err),
                     LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "HF_ENDPOINT is \"huggingface.co\""));
    assert_int_equal(hub_policy_init(&policy, NULL, hosts, 2, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "hub-host is \"bad host\""));
}

static void every_host_of_the_setting_is_allowed_or_the_list_is_refused(void **state)
{
    static const struct lr_setting row = {.name = "hub-host", .type = LR_SETTING_LIST};
    const struct lr_setting_table table = {&row, 1};
    const char *const sixteen[] = {"--hub-host", "h1,h2,h3,h4,h5,h6,h7,h8,h9,h10,h11,h12,h13,"
                                                 "h14,h15,h16.example.com:81"};
    const char *const one_more[] = {"--hub-host", "h17"};
    struct hub_client client;
    struct lr_settings *settings;
    struct lr_error err;
    bool is_named;
    (void)state;
    assert_int_equal(lr_settings_create(&table, 1, NULL, &settings, NULL), LR_OK);
    assert_int_equal(lr_settings_read_args(settings, 2, sixteen, &err), LR_OK);
    assert_int_equal(hub_client_read(&client, settings, &err), LR_OK);
    assert_int_equal(hub_policy_check(&client.policy, LR_STR_LIT("http://h16.example.com:81/a"),
                                      &is_named, &err),
                     LR_OK);
    assert_true(is_named);
    assert_int_equal(lr_settings_read_args(settings, 2, one_more, &err), LR_OK);
    assert_int_equal(hub_client_read(&client, settings, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "more than 16 hosts"));
    lr_settings_destroy(settings);
}

static void the_environment_gives_endpoint_and_token(void **state)
{
    struct hub_client client;
    struct lr_error err;
    (void)state;
    (void)setenv("HF_ENDPOINT", "https://mirror.example/hub/", 1);
    (void)setenv("HF_TOKEN", " hf_secret\n", 1);
    assert_int_equal(hub_client_init(&client, NULL, 0, &err), LR_OK);
    assert_string_equal(client.policy.endpoint, "https://mirror.example/hub");
    assert_string_equal(client.token, "hf_secret");
    (void)setenv("HF_TOKEN", "two words\r\nX-Evil: 1", 1);
    assert_int_equal(hub_client_init(&client, NULL, 0, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "HF_TOKEN"));
    assert_null(strstr(err.text, "two words")); /* never shown */
    (void)unsetenv("HF_TOKEN");
    (void)setenv("HF_HOME", "/nonexistent", 1);
    assert_int_equal(hub_client_init(&client, NULL, 0, &err), LR_OK);
    assert_string_equal(client.token, "");
    (void)unsetenv("HF_ENDPOINT");
}

static void an_address_escapes_what_a_name_holds(void **state)
{
    struct hub_policy policy = policy_of(NULL, NULL);
    struct lr_buf url;
    (void)state;
    lr_buf_init(&url, HUB_URL_MAX);
    hub_url_resolve(&url, &policy, lr_str_z("a/b"), lr_str_z("refs/pr/1"),
                    lr_str_z("q 4/x?y#z%.gguf"));
    assert_string_equal(lr_buf_z(&url), "https://huggingface.co/a/b/resolve/refs%2Fpr%2F1/"
                                        "q%204/x%3Fy%23z%25.gguf");
    lr_buf_free(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_hubs_own_hosts_are_followed_by_default),
        cmocka_unit_test(a_named_host_is_trusted_on_its_port_and_in_every_spelling),
        cmocka_unit_test(the_token_belongs_to_the_endpoints_origin),
        cmocka_unit_test(addresses_that_are_not_public_are_known),
        cmocka_unit_test(every_spelling_of_an_address_is_read),
        cmocka_unit_test(a_malformed_setting_names_itself),
        cmocka_unit_test(every_host_of_the_setting_is_allowed_or_the_list_is_refused),
        cmocka_unit_test(the_environment_gives_endpoint_and_token),
        cmocka_unit_test(an_address_escapes_what_a_name_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
