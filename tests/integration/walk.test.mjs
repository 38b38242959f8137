// docs/walk.md comes from traced requests (tools/walk).
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../e2e/support.mjs';

test('every landmark of docs/walk.md lies on the way of each streamed request, in the process of its section', () => {
  execFileSync(path.join(ROOT, 'tools/walk'), ['--check'], { stdio: ['ignore', 'inherit', 'inherit'] });
});
