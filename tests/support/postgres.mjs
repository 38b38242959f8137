// A PostgreSQL server of a test's own (the script tests/support/postgres).
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { ROOT } from './program.mjs';
import { tempDir } from './scene.mjs';

const SCRIPT = path.join(ROOT, 'tests/support/postgres');

// Returns the running server.  `url` names the database "postgres", `named(name)` another one of the server.
export function startPostgres() {
  const folder = tempDir('pg');
  const tell = (word) => execFileSync(SCRIPT, [word, folder], { encoding: 'utf8' }).trim();
  const pattern = tell('start');
  const named = (name) => pattern.replace('DATABASE', name);
  return {
    url: named('postgres'),
    named,
    stop: () => tell('stop'), // at once, like a crash
    again: () => tell('again'),
    freeze: () => tell('freeze'), // connections stay open, and the server does not answer
    thaw: () => tell('thaw'),
    ask: (statement) => execFileSync('psql', [named('postgres'), '-AtXc', statement], { encoding: 'utf8' }).trim(),
  };
}
