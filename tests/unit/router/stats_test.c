/* Figures for charts: what a second held, what a quarter of an hour looks like. */
#include "tests/unit/router/support.h"

#include <math.h>

#include "router/observe/stats.h"

static struct router_stats stats; /* large */
static struct router_metrics metrics;

static void percentiles_lie_within_their_bucket(void **state)
{
    uint64_t counts[ROUTER_BUCKETS] = {0};
    (void)state;
    assert_true(isnan(router_percentile(counts, 0.5)));
    counts[4] = 100; /* 4 to 8 ms */
    assert_float_equal(router_percentile(counts, 0.5), 6, 0.01);
    assert_float_equal(router_percentile(counts, 0.99), 7.96, 0.01);
    counts[9] = 100; /* 128 to 256 ms */
    assert_float_equal(router_percentile(counts, 0.5), 8, 0.01);
    assert_in_range((int)router_percentile(counts, 0.99), 250, 256);
}

static const char *all(struct lr_buf *buf, uint32_t step)
{
    struct lr_json_writer w;
    lr_buf_clear(buf);
    lr_json_writer_init(&w, buf);
    lr_json_begin_object(&w);
    router_stats_put_all(&stats, step, &w);
    lr_json_end_object(&w);
    assert_false(buf->failed);
    return lr_buf_z(buf);
}

static void a_point_is_the_growth_per_second(void **state)
{
    struct lr_buf buf;
    struct lr_json_writer w;
    (void)state;
    memset(&stats, 0, sizeof(stats));
    memset(&metrics, 0, sizeof(metrics));
    lr_buf_init(&buf, 1 << 20);
    router_stats_tick(&stats, &metrics, 0, 0, 1000, 1000000);
    assert_string_equal(all(&buf, 5),
                        "{\"step\":5,\"time\":[],\"queue\":[],\"in_flight\":[],"
                        "\"requests_per_second\":[],\"tokens_per_second\":[],"
                        "\"errors_per_second\":[],\"wait_ms\":{\"p50\":[],\"p99\":[]},"
                        "\"first_token_ms\":{\"p50\":[],\"p99\":[]},"
                        "\"inter_token_ms\":{\"p50\":[],\"p99\":[]},\"charts\":[]}");
    for (int i = 0; i < 30; i++)
        router_observe_in(&metrics.inter_token, router_bucket_of(6000000), 6000000);
    router_observe_in(&metrics.total, 0, 1);
    router_count(&metrics.failed, 4);
    router_stats_tick(&stats, &metrics, 3, 2, 3000, 1002000); /* two seconds: a late timer */
    lr_json_writer_init(&w, &buf);
    lr_buf_clear(&buf);
    lr_json_begin_object(&w);
    router_stats_put_newest(&stats, &w);
    lr_json_end_object(&w);
    assert_string_equal(lr_buf_z(&buf),
                        "{\"queue\":3,\"in_flight\":2,\"requests_per_second\":0.5,"
                        "\"tokens_per_second\":15,\"errors_per_second\":2,"
                        "\"wait_ms\":{\"p50\":null,\"p99\":null},"
                        "\"first_token_ms\":{\"p50\":null,\"p99\":null},"
                        "\"inter_token_ms\":{\"p50\":6,\"p99\":7.96}}");
    /* Seven seconds in points of five: a short one, then a whole one. */
    for (uint64_t i = 0; i < 6; i++)
        router_stats_tick(&stats, &metrics, 0, 0, 4000 + 1000 * i, 1003000 + 1000 * (int64_t)i);
    assert_contains(all(&buf, 5), "\"time\":[1003,1008],\"queue\"");
    assert_contains(all(&buf, 5), "\"requests_per_second\":[0.33,0],");
    lr_buf_free(&buf);
}

static void the_ring_has_the_last_fifteen_minutes(void **state)
{
    struct lr_buf buf;
    (void)state;
    memset(&stats, 0, sizeof(stats));
    memset(&metrics, 0, sizeof(metrics));
    lr_buf_init(&buf, 1 << 20);
    for (uint32_t i = 0; i <= 2000; i++) {
        router_count(&metrics.failed, 1);
        router_stats_tick(&stats, &metrics, i, 0, 1000 + 1000 * (uint64_t)i, 1000 * (int64_t)i);
    }
    const char *text = all(&buf, 60);
    assert_contains(text, "\"time\":[1160,1220,");
    assert_contains(text, ",2000],\"queue");
    assert_contains(text, "\"queue\":[1160,");
    assert_contains(text, "\"errors_per_second\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]");
    assert_non_null(strstr(all(&buf, 1), "\"time\":[1101,1102,"));
    lr_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_lie_within_their_bucket),
        cmocka_unit_test(a_point_is_the_growth_per_second),
        cmocka_unit_test(the_ring_has_the_last_fifteen_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
