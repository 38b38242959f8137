// A chaos test of twenty seconds; make chaos runs longer ones (docs/testing.md).
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { storm } from '../chaos/run.mjs';
import { ROOT } from './support.mjs';

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
  const result = await storm({
    seed: 20,
    minutes: 5, // ends a storm that hangs
    rounds: 3, // not a time: on a busy machine a round takes longer
    longestHold: 1200,
    slow: 3, // other files run at the same time
    only,
    logDir: path.join(ROOT, 'build/test-log/chaos'),
    say: (text) => t.diagnostic(text),
  });
  for (const line of result.text.split('\n')) t.diagnostic(line);
  assert.deepEqual(result.broken, []);
  assert.ok(
    result.faults >= 3 && result.counts.checked >= 50,
    `${result.faults} faults, ${result.counts.checked} answers`,
  );
});
