/* native/arch/families.h - the list of all families: X(file). */
#ifndef NATIVE_ARCH_FAMILIES_H
#define NATIVE_ARCH_FAMILIES_H

/* clang-format off */
#define NATIVE_FAMILIES(X) \
    X(bert) \
    X(cohere2) \
    X(deepseek_v3) \
    X(ernie4_5) \
    X(exaone4) \
    X(falcon_h1) \
    X(gemma2) \
    X(gemma3) \
    X(gemma4) \
    X(glm4) \
    X(glm4_moe) \
    X(gpt2) \
    X(gpt_neox) \
    X(gpt_oss) \
    X(granite) \
    X(granite_hybrid) \
    X(hunyuan) \
    X(lfm2) \
    X(llama) \
    X(minimax_m2) \
    X(mistral) \
    X(mixtral) \
    X(modernbert) \
    X(nemotron_h) \
    X(nomic_bert) \
    X(olmo3) \
    X(olmoe) \
    X(phi) \
    X(phi3) \
    X(phimoe) \
    X(qwen2) \
    X(qwen2_moe) \
    X(qwen3) \
    X(qwen3_5) \
    X(qwen3_moe) \
    X(seed_oss) \
    X(smollm3) \
    X(stablelm) \
    X(starcoder2)
/* clang-format on */

#endif
