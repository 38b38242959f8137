// How fast tokenizer files encode, beside the Rust library that the Hugging Face tools use
// (npm tokenizers, tests/tokenizers/package.json), on one core in the same run.
// Usage: node bench/tokenizer/beside_rust.mjs BENCH_TOKENIZER TEXT FILE...
// The text is cut into parts of 10 KB, as requests have them: the library's time for one text
// grows faster than the text.  Both are medians of five runs.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

process.env.TOKENIZERS_PARALLELISM = 'false';
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const require = createRequire(path.join(root, 'tests/tokenizers/package.json'));
const { Tokenizer } = require('tokenizers');

const [bench, file, ...files] = process.argv.slice(2);
const prose = fs.readFileSync(file, 'utf8').slice(0, 500_000);
const parts = [];
for (let at = 0; at < prose.length; at += 10_000) parts.push(prose.slice(at, at + 10_000));
const bytes = Buffer.byteLength(prose);
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

async function rust(name) {
  const tokenizer = Tokenizer.fromFile(name);
  const times = [];
  for (let run = 0; run < 5; run++) {
    const start = process.cpuUsage();
    for (const part of parts) await tokenizer.encode(part, null, { addSpecialTokens: false });
    const { user, system } = process.cpuUsage(start);
    times.push((user + system) / 1e6);
  }
  return bytes / 1e6 / median(times);
}

function ours(name) {
  const output = execFileSync(bench, [name, file, '5', '10000'], { encoding: 'utf8' });
  return Number(/^prose .* ([\d.]+) MB\/s/m.exec(output)[1]);
}

console.log('file                      ours MB/s   Rust MB/s   times');
for (const name of files) {
  const [a, b] = [ours(name), await rust(name)];
  const label = path.basename(name, '.json').padEnd(24);
  console.log(`${label} ${a.toFixed(1).padStart(10)} ${b.toFixed(1).padStart(11)} ${(a / b).toFixed(1).padStart(7)}`);
}
