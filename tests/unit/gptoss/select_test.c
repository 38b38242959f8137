/* Which CUDA kernels a step launches: for every GPU and shape the kernel exists, fits, and
 * covers the whole product.  Needs no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engines/gptoss/backend/cuda/select.h"

enum { H200, A100, H200_PTX, RTX_3090, RTX_4090, RTX_5090, DEVICES };

enum kernel_code { COMMON, HOPPER }; /* as kernels.def says */

static const enum kernel_code kernel_codes[] = {
#define KERNEL(module, name, code) [CUDA_##name] = (code),
#include "engines/gptoss/backend/cuda/kernels.def"
};

static const char *const kernel_names[] = {
#define KERNEL(module, name, code) [CUDA_##name] = #name,
#include "engines/gptoss/backend/cuda/kernels.def"
};

/* H200_PTX: an H200 whose driver compiled the PTX for compute capability 8.0, as it does on the
 * cards for desktops. */
static struct cuda_target device(int which)
{
    static const struct {
        uint32_t multiprocessors, shared_per_block;
    } sizes[DEVICES] = {
        [H200] = {132, 232448},    [A100] = {108, 166912},     [H200_PTX] = {132, 232448},
        [RTX_3090] = {82, 101376}, [RTX_4090] = {128, 101376}, [RTX_5090] = {170, 101376}};
    struct cuda_target t = {.multiprocessors = sizes[which].multiprocessors,
                            .shared_per_block = sizes[which].shared_per_block};
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++)
        t.has[k] = which == H200 || kernel_codes[k] == COMMON;
    return t;
}

struct model {
    struct model_config config;
    struct cuda_matrix qkv, out, unembed, up, down;
};

static struct cuda_matrix matrix(uint32_t rows, uint32_t columns)
{
    return (struct cuda_matrix){
        .rows = rows, .tiles = (rows + 15) / 16, .blocks = columns / 32};
}

static struct model model(uint32_t hidden, uint32_t inner, uint32_t heads, uint32_t kv_heads,
                          uint32_t experts, uint32_t topk, uint32_t vocab)
{
    return (struct model){.config = {.layers = 24,
                                     .hidden = hidden,
                                     .intermediate = inner,
                                     .heads = heads,
                                     .kv_heads = kv_heads,
                                     .experts = experts,
                                     .experts_per_token = topk,
                                     .vocab = vocab,
                                     .window = 128,
                                     .swiglu_limit = 7},
                          .qkv = matrix((heads + 2 * kv_heads) * 64, hidden),
                          .out = matrix(hidden, heads * 64),
                          .unembed = matrix(vocab, hidden),
                          .up = matrix(inner * 2, hidden),
                          .down = matrix(hidden, inner)};
}

static struct model gptoss_20b(void)
{
    return model(2880, 2880, 64, 8, 32, 4, 201088);
}

static enum cuda_kernel product_of(struct cuda_choices all)
{
    return all.at[all.count - 1].kernel;
}

static void a_step_of_gptoss_on_hopper_takes_the_measured_kernels(void **state)
{
    static const struct {
        uint32_t rows;
        enum cuda_kernel qkv, out, up, logits;
    } want[] = {
        {1, CUDA_rows_1_32_qkv_8, CUDA_rows_1_32_out_8, CUDA_rows_1_32_gate_up_1,
         CUDA_rows_1_32_logits_8},
        {2, CUDA_rows_2_64_qkv_8, CUDA_rows_1_32_out_8, CUDA_stream_gate_up_8,
         CUDA_rows_1_32_logits_8},
        {5, CUDA_rows_2_64_qkv_8, CUDA_rows_2_64_out_8, CUDA_stream_gate_up_8,
         CUDA_rows_1_32_logits_8},
        {9, CUDA_rows_2_64_qkv_16, CUDA_rows_2_64_out_16, CUDA_stream_gate_up,
         CUDA_logits_rows_16},
        {17, CUDA_rows_2_64_qkv_32, CUDA_rows_2_64_out_32, CUDA_stream_gate_up,
         CUDA_logits_rows_32},
        {64, CUDA_rows_2_64_qkv_64, CUDA_rows_2_64_out_64, CUDA_stream_gate_up,
         CUDA_logits_rows_64},
        {65, CUDA_rows_2_64_qkv_72, CUDA_rows_2_64_out_72, CUDA_stream_gate_up,
         CUDA_prompt_logits},
        {73, CUDA_rows_2_64_qkv_80, CUDA_rows_2_64_out_80, CUDA_stream_gate_up,
         CUDA_prompt_logits},
        {81, CUDA_prompt_qkv_split, CUDA_prompt_out_split, CUDA_stream_gate_up,
         CUDA_prompt_logits},
        {89, CUDA_prompt_qkv_split, CUDA_prompt_out_split, CUDA_few_gate_up,
         CUDA_prompt_logits},
        {256, CUDA_prompt_qkv_split, CUDA_prompt_out_split, CUDA_few_gate_up,
         CUDA_prompt_logits},
        {512, CUDA_prompt_qkv, CUDA_prompt_out, CUDA_some_gate_up, CUDA_prompt_logits},
        {2048, CUDA_prompt_qkv, CUDA_prompt_out, CUDA_prompt_gate_up, CUDA_prompt_logits},
    };
    (void)state;
    const struct cuda_target t = device(H200);
    const struct model m = gptoss_20b();
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        struct cuda_choices experts =
            cuda_select_experts(&t, &m.config, &m.up, &m.down, want[i].rows);
        bool sorts = experts.at[0].operand == CUDA_ON_SORT;
        assert_int_equal(product_of(cuda_select_qkv(&t, &m.qkv, want[i].rows)), want[i].qkv);
        assert_int_equal(product_of(cuda_select_out(&t, &m.out, want[i].rows)), want[i].out);
        assert_int_equal(experts.at[sorts ? 1 : 0].kernel, want[i].up);
        assert_int_equal(sorts, want[i].rows > 88);
        assert_int_equal(cuda_experts_permute(&t, &m.config, &m.up, &m.down, want[i].rows),
                         sorts);
        assert_int_equal(product_of(cuda_select_logits(&t, &m.unembed, want[i].rows)),
                         want[i].logits);
    }
    assert_int_equal(cuda_target_token_rows(&t, &m.config), 2);
    assert_int_equal(cuda_target_attend_rows(&t, &m.config), 8);
}

static void other_gpus_have_a_kernel_for_every_number_of_rows(void **state)
{
    (void)state;
    const struct cuda_target t = device(A100);
    const struct model m = gptoss_20b();
    assert_int_equal(product_of(cuda_select_qkv(&t, &m.qkv, 1)), CUDA_rows_1_32_qkv_8);
    assert_int_equal(product_of(cuda_select_qkv(&t, &m.qkv, 64)), CUDA_rows_1_32_qkv_16);
    assert_int_equal(product_of(cuda_select_qkv(&t, &m.qkv, 65)), CUDA_rows_tiled_qkv);
    assert_int_equal(cuda_select_experts(&t, &m.config, &m.up, &m.down, 4).at[0].kernel,
                     CUDA_rows_1_32_gate_up_1);
    assert_int_equal(cuda_select_experts(&t, &m.config, &m.up, &m.down, 5).at[0].kernel,
                     CUDA_rows_1_32_gate_up_16);
    assert_int_equal(cuda_select_experts(&t, &m.config, &m.up, &m.down, 65).at[1].kernel,
                     CUDA_rows_tiled_gate_up);
    assert_int_equal(cuda_select_attention(&t, &m.config, false, 0, 0, 9).at[0].kernel,
                     CUDA_attention_prefill);
    assert_int_equal(cuda_target_token_rows(&t, &m.config), 0);
    assert_int_equal(cuda_target_attend_rows(&t, &m.config), 0);
    assert_false(cuda_target_is_prompt(&t, 2048));
}

/* ---- checks of every choice ---- */

static void check_launches(const struct cuda_target *t, const struct cuda_choices *all,
                           uint32_t rows)
{
    assert_in_range(all->count, 1, CUDA_CHOICES_MAX);
    for (uint32_t i = 0; i < all->count; i++) {
        const struct cuda_choice *k = &all->at[i];
        bool fits = cuda_target_can_run(t, k->kernel, k->shared) && k->x > 0 && k->y > 0 &&
                    k->z > 0 && k->y <= 65535 && k->z <= 65535 && k->threads > 0 &&
                    k->threads <= 1024 && k->threads % 32 == 0;
        if (!fits)
            fail_msg("%s cannot be launched for %u rows: grid %u, %u, %u, %u bytes",
                     kernel_names[k->kernel], rows, k->x, k->y, k->z, k->shared);
    }
}

/* Rows (tokens) and tiles of 16 rows of the matrix that the launch of a product computes. */
static void check_coverage(const struct cuda_target *t, const struct cuda_matrix *m,
                           const struct cuda_choice *k, uint32_t rows)
{
    uint32_t most = 0; /* rows of a pass */
    (void)sscanf(kernel_names[k->kernel], "rows_%*u_%*u_%*[a-z]_%u", &most);
    (void)sscanf(kernel_names[k->kernel], "logits_rows_%u", &most);
    if (k->splits != 0 && k->tile_tokens != 0) {
        /* Blocks wait for each other, so the whole grid must be resident; each has a part of
         * the sums' memory, and those of a tile a counter. */
        uint32_t tiles = k->x / k->splits, token_tiles = (rows - 1) / k->tile_tokens + 1;
        assert_true(k->x <= t->multiprocessors && k->x <= CUDA_DENSE_GRID);
        assert_true(k->splits <= (m->blocks + 1) / 2 && tiles <= CUDA_ROWS_2_64_GROUPS);
        assert_true(tiles / token_tiles * CUDA_DENSE_ROWS >= m->tiles * 16);
        assert_true(k->tile_tokens % 32 == 0 && k->tile_tokens <= CUDA_DENSE_TOKENS);
    } else if (k->splits != 0) {
        /* Blocks wait for each other, so the whole grid must be resident. */
        assert_true(k->x <= t->multiprocessors && k->x <= CUDA_ROWS_2_64_GRID);
        assert_true(k->x / k->splits * CUDA_ROWS_2_64_TILES >= m->tiles);
        assert_true(k->splits * CUDA_ROWS_2_64_SLICE >= m->blocks);
        assert_true(rows <= most);
    } else if (k->tiles_per_group != 0) {
        bool split = k->kernel < CUDA_rows_1_32_logits_8;
        assert_true(k->x * k->tiles_per_group * (split ? 1 : 8) >= m->tiles);
        assert_true(k->y * most >= rows);
    } else if (k->tile_tokens != 0) {
        assert_true(k->tile_tokens % 32 == 0 && k->tile_tokens <= CUDA_DENSE_TOKENS);
    } else if (most != 0) {
        assert_true(rows <= most); /* blocks loop over the tiles */
    } else {
        assert_true(k->x * CUDA_TILE_TOKENS >= rows);
        assert_true(k->y * CUDA_TILE_ROWS >= m->tiles * 16);
    }
}

static void every_choice_can_be_launched_and_covers_its_product(void **state)
{
    const struct model models[] = {gptoss_20b(),
                                   model(2880, 2880, 64, 8, 128, 4, 201088),
                                   model(160, 96, 12, 1, 40, 3, 300),
                                   model(64, 2880, 64, 8, 4, 2, 1000),
                                   model(2880, 64, 8, 8, 64, 8, 5001),
                                   model(2048, 2048, 16, 2, 8, 2, 128)};
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        const struct cuda_target t = device(d);
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
            const struct model *m = &models[i];
            for (uint32_t rows = 1; rows <= 2112; rows += rows < 140 ? 1 : 131) {
                struct cuda_choices all = cuda_select_qkv(&t, &m->qkv, rows);
                check_launches(&t, &all, rows);
                check_coverage(&t, &m->qkv, &all.at[all.count - 1], rows);
                all = cuda_select_out(&t, &m->out, rows);
                check_launches(&t, &all, rows);
                check_coverage(&t, &m->out, &all.at[0], rows);
                all = cuda_select_logits(&t, &m->unembed, rows);
                check_launches(&t, &all, rows);
                check_coverage(&t, &m->unembed, &all.at[0], rows);
                all = cuda_select_norm(&t, &m->config, true, rows);
                check_launches(&t, &all, rows);
                all = cuda_select_experts(&t, &m->config, &m->up, &m->down, rows);
                check_launches(&t, &all, rows);
                all = cuda_select_attention(&t, &m->config, rows % 2 == 0, rows, 0, rows);
                check_launches(&t, &all, rows);
            }
        }
    }
}

static void down_adds_to_the_residual_itself_where_no_sum_follows(void **state)
{
    (void)state;
    const struct model m = gptoss_20b();
    for (int d = 0; d < DEVICES; d++) {
        const struct cuda_target t = device(d);
        for (uint32_t rows = 1; rows <= 200; rows++) {
            struct cuda_choices all = cuda_select_experts(&t, &m.config, &m.up, &m.down, rows);
            bool sums = all.at[all.count - 1].operand == CUDA_ON_SUM,
                 adds = all.at[1].kernel == CUDA_rows_1_32_down_1;
            assert_true(sums != adds);
        }
    }
}

static void experts_with_few_rows_each_take_the_kernels_for_few(void **state)
{
    (void)state;
    const struct cuda_target t = device(H200);
    const struct model small = gptoss_20b(), large = model(2880, 2880, 64, 8, 128, 4, 201088),
                       narrow = model(2048, 2048, 16, 2, 32, 4, 128);
    static const struct {
        uint32_t rows;
        enum cuda_kernel up;
        uint32_t room;
    } want[] = {{89, CUDA_few_gate_up, CUDA_FEW_TOKENS},
                {288, CUDA_few_gate_up, CUDA_FEW_TOKENS},
                {300, CUDA_some_gate_up, CUDA_SOME_TOKENS},
                {640, CUDA_some_gate_up, CUDA_SOME_TOKENS},
                {660, CUDA_prompt_gate_up, CUDA_PROMPT_TOKENS}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        uint32_t rows = want[i].rows;
        struct cuda_choices all = cuda_select_experts(&t, &small.config, &small.up, &small.down,
                                                      rows),
                            wide = cuda_select_experts(&t, &large.config, &large.up,
                                                       &large.down, 4 * rows);
        assert_int_equal(all.at[0].tile_tokens, want[i].room);
        assert_int_equal(all.at[1].kernel, want[i].up);
        assert_int_equal(wide.at[1].kernel, want[i].up);
        /* Their code is for the published width. */
        all = cuda_select_experts(&t, &narrow.config, &narrow.up, &narrow.down, rows);
        assert_int_equal(all.at[1].kernel, CUDA_prompt_gate_up);
    }
}

static void cards_for_desktops_run_experts_in_tiles(void **state)
{
    (void)state;
    const struct cuda_target t = device(RTX_4090);
    const struct model m = gptoss_20b();
    assert_int_equal(cuda_select_experts(&t, &m.config, &m.up, &m.down, 4).at[0].kernel,
                     CUDA_rows_1_32_gate_up_1);
    for (uint32_t rows = 5; rows <= 128; rows++) {
        struct cuda_choices all = cuda_select_experts(&t, &m.config, &m.up, &m.down, rows);
        assert_int_equal(all.at[0].kernel, CUDA_sort_assignments);
        assert_int_equal(all.at[1].kernel, CUDA_rows_tiled_gate_up);
        assert_int_equal(all.at[2].kernel, CUDA_rows_tiled_down);
    }
}

static void a_kernel_that_does_not_fit_shared_memory_is_not_chosen(void **state)
{
    (void)state;
    struct cuda_target t = device(H200);
    const struct model m = gptoss_20b();
    assert_true(cuda_target_can_run(&t, CUDA_prompt_qkv, t.shared_per_block));
    t.static_shared[CUDA_prompt_qkv] = 1;
    assert_false(cuda_target_can_run(&t, CUDA_prompt_qkv, t.shared_per_block));
    t.static_shared[CUDA_prompt_qkv] = t.shared_per_block;
    /* One of the prompt kernels does not fit: none is used, because they share the column
     * order. */
    assert_int_equal(product_of(cuda_select_out(&t, &m.out, 2048)), CUDA_rows_tiled_out);
    assert_int_equal(cuda_select_experts(&t, &m.config, &m.up, &m.down, 2048).at[1].kernel,
                     CUDA_rows_tiled_gate_up);
    assert_int_equal(cuda_target_query_tokens(&t, &m.config), 2);
}

static void long_contexts_of_many_rows_are_split_within_the_memory_for_parts(void **state)
{
    struct cuda_seq seqs[512];
    uint32_t parts[CUDA_PARTS];

    (void)state;
    for (uint32_t rows = 65; rows <= 512; rows += 149)
        for (uint32_t longest = 500; longest <= 131072; longest *= 4) {
            uint32_t next = 0, listed = 0;
            for (uint32_t i = 0; i < rows; i++)
                seqs[i] = (struct cuda_seq){.position = i % 7 == 0 ? longest - 1 : 100};
            uint32_t count = cuda_split_contexts(seqs, rows, parts);
            for (uint32_t i = 0; i < rows; i++) {
                uint32_t chunks = seqs[i].position / 16 + 1, share = seqs[i].share;
                if (share == 0)
                    continue;
                assert_int_equal(seqs[i].first_part, next);
                next += (chunks + share - 1) / share;
                for (uint32_t k = 1; k * share < chunks; k++)
                    assert_int_equal(parts[listed++], i | k << 16);
            }
            assert_int_equal(listed, count);
            assert_true(next <= CUDA_PARTS);
            assert_true(longest <= 1024 ? count == 0 : count > 0);
        }
    for (uint32_t i = 0; i < 64; i++)
        seqs[i] = (struct cuda_seq){.position = 100000};
    assert_int_equal(cuda_split_contexts(seqs, 64, parts), 0); /* the grid splits them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_contexts_of_many_rows_are_split_within_the_memory_for_parts),
        cmocka_unit_test(a_step_of_gptoss_on_hopper_takes_the_measured_kernels),
        cmocka_unit_test(other_gpus_have_a_kernel_for_every_number_of_rows),
        cmocka_unit_test(every_choice_can_be_launched_and_covers_its_product),
        cmocka_unit_test(down_adds_to_the_residual_itself_where_no_sum_follows),
        cmocka_unit_test(experts_with_few_rows_each_take_the_kernels_for_few),
        cmocka_unit_test(cards_for_desktops_run_experts_in_tiles),
        cmocka_unit_test(a_kernel_that_does_not_fit_shared_memory_is_not_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
