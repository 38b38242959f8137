"""tests/gpu/golden.py BIN DEVICE [--engine-options JSON] DIR...: the engine's logits and greedy tokens against the reference's.

Each DIR holds model/ and golden/ (made with Hugging Face transformers in float32).  Limits for a GPU: relative error of a
case 3e-2, of the median position 6e-3; with the reference's answer given, the largest logit is its token at every step whose
reference margin is at least 0.5; tokens sampled greedily are its tokens up to the first step below that.  Single positions may
be further off: backend_choices.c shows why.
"""
import json
import os
import statistics
import subprocess
import sys
from array import array

binary, device, dirs = sys.argv[1], sys.argv[2], sys.argv[3:]
options, dirs = (dirs[:2], dirs[2:]) if dirs[0] == "--engine-options" else ([], dirs)
exact = device == "cpu"
CASE, MEDIAN = (1e-5, 1e-5) if exact else (3e-2, 6e-3)
failed = []


def run(tool, model, ids, *flags):
    command = [binary, "debug", tool, "--model", model, "--device", device, *options, *flags]
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
        answer, margins = case["greedy"], case["margins"]
        forced = array("f")
        forced.frombytes(run("logits", model, case["ids"] + answer[:-1], "--chunk", "2048"))
        forced = forced[(len(case["ids"]) - 1) * vocab:]
        steps = [forced[i * vocab:(i + 1) * vocab] for i in range(len(answer))]
        clear = [i for i, m in enumerate(margins) if exact or m >= 0.5]
        wrong = [i for i in clear if steps[i].index(max(steps[i])) != answer[i]]
        print(f"{'FAIL' if wrong else 'ok  '} {name}: largest logit as the reference's at {len(clear) - len(wrong)} of "
              f"{len(clear)} clear steps, smallest margin of all {len(answer)}: {min(margins):.2f}")
        if wrong:
            failed.append(name)
        tokens = json.loads(run("generate", model, case["ids"], "--max-tokens", str(len(case["greedy"])), "--temperature", "0"))
        cut = len(answer) if exact else next((i for i, m in enumerate(margins) if m < 0.5), len(answer))
        same = next((i for i, (a, b) in enumerate(zip(tokens, answer)) if a != b), min(len(tokens), len(answer)))
        print(f"{'ok  ' if same >= cut else 'FAIL'} {name}: {same} of {len(answer)} greedy tokens as the reference's, {cut} must be")
        if same < cut:
            print(f"     {tokens} instead of {answer}")
            failed.append(name)
print(f"{len(failed)} failed")
sys.exit(bool(failed))
