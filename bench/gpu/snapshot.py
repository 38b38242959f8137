#!/usr/bin/env python3
"""bench/gpu/snapshot.py DEMO FOLDER [20b|tiny] [TOKENIZER]: writes a gpt-oss snapshot of random weights in the published
shapes, with the demo model's tokenizer or the given tokenizer.json.  Its answers are noise; its size and speed are real.
No token of an answer is a part of a letter: the server would send it with the next one, and noise has many of them."""
import json, os, shutil, struct, sys

SHAPES = {
    "20b": dict(hidden=2880, inner=2880, layers=24, heads=64, kv=8, experts=32, chosen=4, vocab=201088, window=128),
    "tiny": dict(hidden=256, inner=256, layers=4, heads=8, kv=2, experts=8, chosen=2, vocab=2048, window=64),
}
POOL = 64 << 20


def tensors(s):
    """Name, type, shape and the kind of values, in the order of the file."""
    q, kv, h, n, e = s["heads"] * 64, s["kv"] * 64, s["hidden"], s["inner"], s["experts"]
    yield "model.embed_tokens.weight", "BF16", [s["vocab"], h], "large"
    for i in range(s["layers"]):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", "BF16", [h], "one"
        for name, rows, columns in (("q", q, h), ("k", kv, h), ("v", kv, h), ("o", h, q)):
            yield f"{at}self_attn.{name}_proj.weight", "BF16", [rows, columns], "small"
            yield f"{at}self_attn.{name}_proj.bias", "BF16", [rows], "small"
        yield at + "self_attn.sinks", "BF16", [s["heads"]], "small"
        yield at + "post_attention_layernorm.weight", "BF16", [h], "one"
        yield at + "mlp.router.weight", "BF16", [e, h], "small"
        yield at + "mlp.router.bias", "BF16", [e], "small"
        for name, rows, columns in (("gate_up_proj", 2 * n, h), ("down_proj", h, n)):
            yield f"{at}mlp.experts.{name}_blocks", "U8", [e, rows, columns // 32, 16], "any"
            yield f"{at}mlp.experts.{name}_scales", "U8", [e, rows, columns // 32], "scale"
            yield f"{at}mlp.experts.{name}_bias", "BF16", [e, rows], "small"
    yield "model.norm.weight", "BF16", [h], "one"
    yield "lm_head.weight", "BF16", [s["vocab"], h], "large"


def pools():
    """Random bytes of each kind, used over and over."""
    noise = os.urandom(POOL)

    def bf16(high):  # a random mantissa under a fixed exponent, either sign
        out = bytearray(POOL)
        out[0::2] = noise[: POOL // 2]
        out[1::2] = noise[POOL // 2 :].translate(bytes(high | (b & 0x80) for b in range(256)))
        return bytes(out)

    return {"any": noise, "scale": bytes([121]) * POOL, "one": b"\x80\x3f" * (POOL // 2), "small": bf16(0x3C), "large": bf16(0x3E)}


def use_tokenizer(path, folder, config):
    """The special tokens have the numbers of this tokenizer: an ordinary token with the demo model's number must not end an answer."""
    added = {t["content"]: t["id"] for t in json.load(open(path))["added_tokens"]}
    shutil.copy(path, os.path.join(folder, "tokenizer.json"))
    config.update(eos_token_id=added["<|return|>"], pad_token_id=added["<|endoftext|>"])
    with open(os.path.join(folder, "generation_config.json"), "w") as out:
        json.dump({"bos_token_id": added["<|startoftext|>"], "pad_token_id": added["<|endoftext|>"],
                   "eos_token_id": [added[name] for name in ("<|return|>", "<|endoftext|>", "<|call|>")]}, out)


def parts_of_letters(path):
    """Ids of the tokens whose bytes are not whole UTF-8.  A byte-level tokenizer writes each byte as one printable letter."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in plain}
    byte_of.update((chr(256 + i), b) for i, b in enumerate(b for b in range(256) if b not in plain))
    for token, number in json.load(open(path))["model"]["vocab"].items():
        try:
            bytes(byte_of[letter] for letter in token).decode()
        except UnicodeDecodeError:
            yield number


def main():
    demo, folder = sys.argv[1], sys.argv[2]
    s = SHAPES[sys.argv[3] if len(sys.argv) > 3 else "20b"]
    os.makedirs(folder, exist_ok=True)
    for name in ("tokenizer.json", "generation_config.json"):
        shutil.copy(os.path.join(demo, name), folder)
    config = json.load(open(os.path.join(demo, "config.json")))
    if len(sys.argv) > 4:
        use_tokenizer(sys.argv[4], folder, config)
    config.update(hidden_size=s["hidden"], intermediate_size=s["inner"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
                  num_key_value_heads=s["kv"], num_local_experts=s["experts"], num_experts_per_tok=s["chosen"], experts_per_token=s["chosen"],
                  vocab_size=s["vocab"], sliding_window=s["window"],
                  layer_types=["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(s["layers"])])
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    header, offset, parts = {}, 0, []
    for name, kind, shape, values in tensors(s):
        size = 2 if kind == "BF16" else 1
        for n in shape:
            size *= n
        header[name] = dict(dtype=kind, shape=shape, data_offsets=[offset, offset + size])
        offset += size
        parts.append((size, values))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pool, start = pools(), 0
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for size, values in parts:
            start = (start + 4098) % (POOL // 2)  # no two tensors alike
            start -= start % 2
            while size > 0:
                piece = pool[values][start : start + size]
                out.write(piece)
                size -= len(piece)
                start = 0 if size > 0 else start
        row = 2 * s["hidden"]
        for number in parts_of_letters(os.path.join(folder, "tokenizer.json")):  # a logit of 0 is never the largest
            out.seek(8 + len(text) + header["lm_head.weight"]["data_offsets"][0] + number * row)
            out.write(bytes(row))
    print(f"{folder}: {offset / 1e9:.1f} GB")


main()
