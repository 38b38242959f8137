/* A router as the node sees it: every pair of states, and what the node says next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/machine.h"
#include "node/fleet/peer.h"

#define P(name) NODE_PEER_##name

static void a_router_moves_as_its_picture_says_and_is_a_stranger_otherwise(void **state)
{
    static const unsigned legal[] = {
        [P(STRANGER)] = LR_STATE(P(TOKEN)) | LR_STATE(P(JOINED)),
        [P(TOKEN)] = LR_STATE(P(STRANGER)) | LR_STATE(P(JOINED)),
        [P(JOINED)] = LR_STATE(P(OUTDATED)) | LR_STATE(P(REFUSED)) | LR_STATE(P(SILENT)) |
                      LR_STATE(P(STRANGER)),
        [P(OUTDATED)] = LR_STATE(P(JOINED)) | LR_STATE(P(REFUSED)) | LR_STATE(P(SILENT)),
        [P(REFUSED)] = LR_STATE(P(JOINED)) | LR_STATE(P(SILENT)) | LR_STATE(P(STRANGER)),
        [P(SILENT)] = LR_STATE(P(JOINED)) | LR_STATE(P(REFUSED)) | LR_STATE(P(STRANGER)),
    };
    (void)state;
    for (unsigned from = 0; from <= P(SILENT); from++)
        for (unsigned to = 0; to <= P(SILENT); to++) {
            struct node_peer peer = {.router = "http://r", .state = from};
            uint64_t before = lr_machine_bad_moves();
            bool is_legal = from == to || (legal[from] & LR_STATE(to)) != 0;
            node_peer_move(&peer, to);
            assert_int_equal(lr_machine_bad_moves() - before, !is_legal);
            assert_int_equal(peer.state, is_legal ? to : P(STRANGER));
        }
}

static void a_router_that_does_not_know_the_node_or_its_models_gets_a_join(void **state)
{
    static const struct {
        enum node_peer_state state;
        enum node_peer_word word, word_with_news;
    } rows[] = {
        {P(STRANGER), P(JOIN), P(JOIN)},    {P(TOKEN), P(JOIN), P(JOIN)},
        {P(JOINED), P(HEARTBEAT), P(JOIN)}, {P(OUTDATED), P(JOIN), P(JOIN)},
        {P(SILENT), P(HEARTBEAT), P(JOIN)}, {P(REFUSED), P(HEARTBEAT), P(HEARTBEAT)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct node_peer peer = {.state = rows[i].state};
        assert_int_equal(node_peer_next(&peer, false), rows[i].word);
        assert_int_equal(node_peer_next(&peer, true), rows[i].word_with_news);
        assert_int_equal(node_peer_is_joined(&peer), rows[i].state >= P(JOINED));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_router_moves_as_its_picture_says_and_is_a_stranger_otherwise),
        cmocka_unit_test(a_router_that_does_not_know_the_node_or_its_models_gets_a_join),
    };
    lr_machine_tolerate(true);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
