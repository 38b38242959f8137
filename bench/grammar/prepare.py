"""prepare.py DATA OUT: every schema of a MaskBench folder with its instances, as one file.

Texts are written as MaskBench does it: json.dumps with characters beyond ASCII as they are.
The file: for each schema three lengths (name, schema, instances), the name, the schema, and for
each instance whether it is valid, its length and its text.
"""
import json
import os
import struct
import sys


def text_of(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def main(data, out):
    with open(out, "wb") as f:
        for name in sorted(os.listdir(data)):
            with open(os.path.join(data, name), encoding="utf-8") as source:
                case = json.load(source)
            schema, tests = text_of(case["schema"]), case.get("tests", [])
            f.write(struct.pack("<III", len(name.encode()), len(schema), len(tests)))
            f.write(name.encode() + schema)
            for test in tests:
                text = text_of(test["data"])
                f.write(struct.pack("<BI", test["valid"], len(text)) + text)


main(*sys.argv[1:3])
