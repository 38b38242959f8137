"""tests/gpu/confined.py BIN MODEL HOSTILE: the CUDA driver in a confined worker, where no socket connects.

The model answers; its worker runs under Landlock and seccomp and has no socket but the driver's.  The driver keeps the kernels that it
compiles itself (CUDA_FORCE_PTX_JIT), and the next worker finds them: no mode or time of a file is changed for that.  The
engine of the folder HOSTILE gets nothing, although a machine with an NVIDIA GPU opens more to workers.
"""
import json
import os
import re
import struct
import sys
import tempfile

from node import Node, check, until

REFUSED = {"EACCES", "EPERM", "ENOSYS", "EXDEV"}


def log_of(node):
    node.log.flush()
    with open(node.log.name) as file:
        return file.read()


def look_at(pid):
    """Seccomp's mode, and what the descriptors of a process are."""
    with open(f"/proc/{pid}/status") as file:
        mode = re.search(r"^Seccomp:\s+(\d)", file.read(), re.MULTILINE)[1]
    folder = f"/proc/{pid}/fd"
    return mode, [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]


def confined(binary, model):
    with tempfile.TemporaryDirectory() as folder:
        node = Node(binary, model, [], folder)
        try:
            check(node.complete() > 0, "the CUDA driver works in a confined worker, where no socket connects")
            check("node.confinement workers=confined" in log_of(node), "the node says that workers are confined")
            mode, files = look_at(until("a worker", node.worker)["pid"])
            check(mode == "2", "its worker runs under seccomp")
            sockets = [name for name in files if name.startswith("socket:")]
            check(len(sockets) <= 1, f"its worker has no socket but the driver's among {len(files)} descriptors")
            check(any("nvidia" in name for name in files), "and it has the GPU's device")
        finally:
            node.stop()


def kernels(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def compiled(binary, model):
    with tempfile.TemporaryDirectory() as folder:
        scratch = os.path.join(folder, "data", "engine-scratch")
        seen = []
        for _ in range(2):
            node = Node(binary, model, ["--load-timeout", "600s"], folder, {"CUDA_FORCE_PTX_JIT": "1"})
            try:
                check(node.complete() > 0, "the model answers with kernels that the driver compiled")
            finally:
                node.stop()
            seen.append(kernels(scratch))
        check(len(seen[0]) > 0, f"the driver keeps them: {len(seen[0])} files below engine-scratch")
        check(seen[0] == seen[1], "the next worker finds them there")


def write_model(folder):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"architectures": ["EchoForTesting"], "model_type": "hostile"}, file)
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        file.write('{"version":"1.0"}')
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(4))
    for name in ("readable", "plan"):
        open(os.path.join(folder, name), "w").close()


def hostile(binary, engines):
    with tempfile.TemporaryDirectory() as folder:
        model, outside = os.path.join(folder, "m"), os.path.join(folder, "outside")
        write_model(model)
        for name in (outside, outside + "2"):
            open(name, "w").close()
        os.symlink(folder, os.path.join(model, "to-folder"))
        # A link to a file is the operator's wish in a folder that was not downloaded.
        os.mkdir(os.path.join(model, ".download"))
        os.symlink(outside, os.path.join(model, "to-file"))
        plan = {"outside": outside, "spare": outside + "2", "readable": os.path.join(model, "readable"), "model": model,
                "other": outside, "secret": outside, "to_folder": os.path.join(model, "to-folder", "outside"),
                "to_file": os.path.join(model, "to-file"), "handover": outside, "listener": outside, "datagram": outside, "port": 9}
        with open(os.path.join(model, "plan"), "w") as file:
            file.writelines(f"{name}={value}\n" for name, value in plan.items())
        node = Node(binary, model, ["--engines-dir", engines, "--device", "cpu"], folder,
                    {"LC_HOSTILE_PLAN": os.path.join(model, "plan")})
        try:
            answer = node.call("/v1/completions", {"model": node.model, "prompt": "x", "max_tokens": 20000})["choices"][0]["text"]
        finally:
            node.stop()
        tried = [line.split("=") for line in answer.split() if not line.startswith(("needs_", "uid", "sibling", "dumpable", "token"))]
        got = [f"{name}: {result}" for name, result in tried if result not in REFUSED]
        check(len(tried) >= 45 and not got, f"a hostile engine gets none of {len(tried)} things {got or ''}")


def main():
    binary, model, engines = sys.argv[1:]
    if os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or os.path.exists("/tmp/nvidia-mps/control"):
        sys.exit("FAIL CUDA's multi-process service is configured, so workers have sockets: stop it for this test")
    confined(binary, model)
    hostile(binary, engines)
    compiled(binary, model)


main()
