// The program of an earlier commit, built from the history once and kept in build/old/COMMIT.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { ROOT } from './program.mjs';

// { bin, env }: what a process of that program is started with.
export function buildOld(commit) {
  const dir = path.join(ROOT, 'build/old', commit);
  const out = path.join(dir, 'build/release');
  const done = path.join(dir, 'built');
  const run = (script) =>
    execFileSync('bash', ['-euo', 'pipefail', '-c', script, 'bash', commit, dir, out], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 1 << 28,
    });
  if (!fs.existsSync(done)) {
    try {
      run('git cat-file -e "$1^{commit}"');
    } catch {
      throw new Error(`the history has no commit ${commit}: this test builds it (git fetch --unshallow)`);
    }
    run('rm -rf "$2" && mkdir -p "$2" && git archive "$1" | tar -x -C "$2"');
    run('cd "$2" && cmake --preset release -DLR_CUDA=OFF -DLR_VULKAN=OFF');
    run('cmake --build "$3" --target llm-router echo.so');
    run('mkdir -p "$2/engines-built" && cp -rL "$3/testing/engines/echo" "$2/engines-built/"'); // no other is built
    fs.writeFileSync(done, '');
  }
  return { bin: path.join(out, 'bin/llm-router'), env: { LLM_ROUTER_ENGINES_DIR: path.join(dir, 'engines-built') } };
}
