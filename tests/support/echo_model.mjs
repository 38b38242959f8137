// A snapshot that only the testing engines run.
import fs from 'node:fs';
import path from 'node:path';

// Makes `dir`; `testing` are the engine's options.
export function writeEchoModel(dir, runtime = 'echo', testing = {}) {
  fs.mkdirSync(dir, { recursive: true });
  fs.writeFileSync(
    path.join(dir, 'config.json'),
    JSON.stringify({ architectures: ['EchoForTesting'], model_type: runtime, testing }),
  );
  fs.writeFileSync(path.join(dir, 'tokenizer.json'), '{"version":"1.0"}');
  const header = JSON.stringify({ w: { dtype: 'F32', shape: [1], data_offsets: [0, 4] } });
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  fs.writeFileSync(path.join(dir, 'model.safetensors'), Buffer.concat([size, Buffer.from(header), Buffer.alloc(4)]));
  return dir;
}
