/* Measures the time to sample one token from a row of gpt-oss's vocabulary, on one core.
 *
 *   bench_sampler [ROUNDS]     milliseconds a row, the median of ROUNDS (21) times 4 rows
 *
 * "flat" rows have standard normal logits, in "even" rows all are the same,
 * "peaked" rows are like those of a confident model (normal logits of deviation 2 and eight ids
 * 14 to 24 above them), "spread" rows like those of an unsure model (deviation 3, with a tail
 * of likely ids).
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engines/sampler/sampler.h"

enum { VOCAB = 201088, WORDS = VOCAB / 32, ROWS = 4, KINDS = 4, HISTORY = 4096, MOST = 999 };

static const char *const kinds[KINDS] = {"peaked", "spread", "flat", "even"};
static float rows[KINDS][ROWS][VOCAB];
static uint32_t usable[WORDS], mask[WORDS], history[HISTORY];

struct example {
    const char *name;
    struct lr_sampling how;
    bool masked;
};

static double uniform(uint32_t id, uint32_t row, uint32_t word)
{
    uint32_t out[4];

    sampler_philox(77, id, row, out);
    return ((double)out[word] + 0.5) / 4294967296.0;
}

static void make_rows(void)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < VOCAB; i++) {
            double normal =
                sqrt(-2 * log(uniform(i, r, 0))) * cos(6.2831853 * uniform(i, r, 1));
            rows[0][r][i] = (float)(normal * 2);
            rows[1][r][i] =
                (float)(normal * 3 - (i % 977 == 0 ? 4 * log(uniform(i, r, 2)) : 0));
            rows[2][r][i] = (float)normal;
            rows[3][r][i] = 1.5f;
        }
        for (uint32_t i = 0; i < 8; i++)
            rows[0][r][(i * 25013 + r * 977) % VOCAB] += 24.0f - 10.0f * (float)i / 7.0f;
    }
    memset(usable, 0xFF, sizeof(usable));
    memset(usable + 200019 / 32, 0, (WORDS - 200019 / 32) * sizeof(*usable)); /* as gpt-oss */
    for (uint32_t w = 0; w < WORDS; w++) /* a tenth of the words, as within a JSON string */
        mask[w] = w % 10 == 3 ? 0xFFFF00FFu : 0;
    for (uint32_t i = 0; i < HISTORY; i++)
        history[i] = i * 37 % 150000;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_ms(struct sampler *s, uint32_t kind, const struct example *e,
                        uint32_t rounds)
{
    static double times[MOST];
    struct sampler_result out;

    for (uint32_t n = 0; n < rounds; n++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (uint32_t r = 0; r < ROWS; r++) {
            const struct sampler_input how = {.sampling = &e->how,
                                              .index = n * ROWS + r,
                                              .prompt_count = HISTORY / 2,
                                              .history_count = HISTORY,
                                              .history = history,
                                              .mask = e->masked ? mask : NULL};
            sampler_sample(s, rows[kind][r], usable, &how, &out);
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        times[n] = ((double)(to.tv_sec - from.tv_sec) * 1e3 +
                    (double)(to.tv_nsec - from.tv_nsec) / 1e6) /
                   ROWS;
    }
    qsort(times, rounds, sizeof(*times), ascending);
    return times[rounds / 2];
}

int main(int argc, char **argv)
{
#define HOW .size = sizeof(struct lr_sampling), .seed = 5, .repetition_penalty = 1
    const struct example examples[] = {
        {"greedy", {HOW, .top_p = 1}, false},
        {"temperature 1", {HOW, .temperature = 1, .top_p = 1}, false},
        {"top_p 0.95", {HOW, .temperature = 1, .top_p = 0.95f}, false},
        {"top_p 0.5, temperature 0.7", {HOW, .temperature = 0.7f, .top_p = 0.5f}, false},
        {"top_p 0.999, temperature 2", {HOW, .temperature = 2, .top_p = 0.999f}, false},
        {"top_k 50", {HOW, .temperature = 1, .top_p = 1, .top_k = 50}, false},
        {"top_k 50, top_p 0.95", {HOW, .temperature = 1, .top_p = 0.95f, .top_k = 50}, false},
        {"top_k 50000, top_p 0.95",
         {HOW, .temperature = 1, .top_p = 0.95f, .top_k = 50000},
         false},
        {"min_p 0.05", {HOW, .temperature = 1, .top_p = 1, .min_p = 0.05f}, false},
        {"mask, top_p 0.95", {HOW, .temperature = 1, .top_p = 0.95f}, true},
        {"penalties, top_p 0.95",
         {.size = sizeof(struct lr_sampling),
          .temperature = 1,
          .top_p = 0.95f,
          .repetition_penalty = 1.1f,
          .frequency_penalty = 0.2f},
         false},
        {"greedy, 20 logprobs", {HOW, .top_p = 1, .logprobs = 1, .top_logprobs = 20}, false},
        {"top_p 0.95, 20 logprobs",
         {HOW, .temperature = 1, .top_p = 0.95f, .logprobs = 1, .top_logprobs = 20},
         false},
    };
    struct sampler *s = sampler_create(VOCAB);
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 21;

    if (s == NULL || rounds == 0 || rounds > MOST)
        return 1;
    make_rows();
    printf("| ms a row |");
    for (uint32_t k = 0; k < KINDS; k++)
        printf(" %s |", kinds[k]);
    printf("\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        printf("| %s |", examples[i].name);
        for (uint32_t k = 0; k < KINDS; k++)
            printf(" %.3f |", median_ms(s, k, &examples[i], rounds));
        printf("\n");
        fflush(stdout);
    }
    sampler_destroy(s);
    return 0;
}
