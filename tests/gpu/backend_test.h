/* tests/gpu/backend_test.h - the parts of the whole-backend test. */
#ifndef TESTS_GPU_BACKEND_TEST_H
#define TESTS_GPU_BACKEND_TEST_H

/* The demo model through the engine's ABI: batches, chunks, cancels, allotment. */
void test_engine(const char *model_dir);

#endif
