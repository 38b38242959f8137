// A chaos test of twenty seconds; make chaos runs longer ones (docs/testing.md).
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { storm } from '../chaos/run.mjs';
import { LONG, ROOT } from './support.mjs';

async function weather(t, options) {
  const result = await storm({
    minutes: 5, // ends a storm that hangs
    slow: 3, // other files run at the same time
    logDir: path.join(ROOT, 'build/test-log', options.name),
    say: (text) => t.diagnostic(text),
    ...options,
  });
  for (const line of result.text.split('\n')) t.diagnostic(line);
  assert.deepEqual(result.broken, []);
  return result;
}

test('faults under load: every answer is the undisturbed one or refused, and the fleet recovers within seconds', async (t) => {
  const only = [
    'worker-kill',
    'worker-load-kill',
    'node-kill',
    'node-freeze',
    'engine-reload',
    'load-churn',
    'folder-away',
    'link-cut',
    'link-corrupt',
    'router-kill',
    'model-forget',
    'poison',
  ];
  // Rounds are no time: on a busy machine one takes longer.
  const result = await weather(t, { name: 'chaos', seed: 20, rounds: 3, longestHold: 1200, only });
  assert.ok(
    result.faults >= 3 && result.counts.checked >= 50,
    `${result.faults} faults, ${result.counts.checked} answers`,
  );
});

test('clock steps, a full disk, a killed successor, an older database and other weights under one name, under load: usage and budgets are exact after each', async (t) => {
  const only = ['clock-step', 'router-disk-full', 'router-successor-kill', 'database-restored', 'other-weights'];
  const rounds = LONG ? 24 : 4; // each fault once: a step to another month, and a router that is killed while its disk is full
  const result = await weather(t, { name: 'chaos-state', seed: 24, rounds, longestHold: LONG ? 4000 : 1000, only });
  // Without the right to mount no disk is full, and a router that has drained already cannot come back.
  assert.ok(result.faults >= 3, `${result.faults} faults`);
});
