"""tests/gpu/golden.py BIN DEVICE DIR...: the engine's logits and greedy tokens against the reference's.

Each DIR holds model/ and golden/ (made with Hugging Face transformers in float32).  Limits for a GPU: relative error of a
case 3e-2, of the median position 6e-3; tokens equal up to the first step whose reference margin is below 0.5.  A position
that is far off comes from an expert chosen differently at a near tie; those are counted.
"""
import json
import os
import statistics
import subprocess
import sys
from array import array

binary, device, dirs = sys.argv[1], sys.argv[2], sys.argv[3:]
exact = device == "cpu"
CASE, MEDIAN = (1e-5, 1e-5) if exact else (3e-2, 6e-3)
failed = []


def run(tool, model, ids, *flags):
    command = [binary, "debug", tool, "--model", model, "--device", device, *flags]
    done = subprocess.run(command, input=json.dumps(ids).encode(), capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.decode()[-400:]}")
    return done.stdout


def relative(got, want):
    return (sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want)) ** 0.5


for folder in dirs:
    golden = json.load(open(os.path.join(folder, "golden", "golden.json")))
    model = os.path.join(folder, "model")
    for name, case in golden["cases"].items():
        want = array("f")
        want.frombytes(open(os.path.join(folder, "golden", case["logits_file"]), "rb").read())
        vocab = len(want) // (len(case["ids"]) if case["positions"] == "all" else 1)
        for chunk in ("64",) if exact else ("2048", "7"):
            got = array("f")
            got.frombytes(run("logits", model, case["ids"], "--chunk", chunk))
            assert len(got) == vocab * len(case["ids"]), f"{name}: {len(got)} values"
            got = got[len(got) - len(want):]
            rows = [relative(got[i:i + vocab], want[i:i + vocab]) for i in range(0, len(want), vocab)]
            whole, median = relative(got, want), statistics.median(rows)
            ok = whole <= CASE and (len(rows) == 1 or median <= MEDIAN)
            print(f"{'ok  ' if ok else 'FAIL'} {name} chunk {chunk}: relative {whole:.2e}, median position {median:.2e}, "
                  f"worst {max(rows):.2e}, positions above 3e-2: {sum(r > 3e-2 for r in rows)} of {len(rows)}")
            if not ok:
                failed.append(name)
        tokens = json.loads(run("generate", model, case["ids"], "--max-tokens", str(len(case["greedy"])), "--temperature", "0"))
        cut = len(tokens) if exact else next((i for i, m in enumerate(case["margins"]) if m < 0.5), len(tokens))
        if not tokens or tokens[:cut] != case["greedy"][:len(tokens)][:cut]:
            print(f"FAIL {name}: greedy {tokens} instead of {case['greedy']}")
            failed.append(name)
print(f"{len(failed)} failed")
sys.exit(bool(failed))
