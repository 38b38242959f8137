// GPUs of a test: a fake NVML whose figures a test writes, and hours of their history in a router's database.
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { BUILD } from './program.mjs';
import { tempDir } from './scene.mjs';

export const GB = 1_000_000_000;

// Arguments and environment of a node with these GPUs; set() changes the figures, as in
// {total, used, words: 'util=37 temp=61'} (engines/testing/fake_nvml.c).
export function makeGpus(list) {
  const file = path.join(tempDir('nvml'), 'gpus');
  const set = (gpus) => {
    fs.writeFileSync(`${file}.new`, gpus.map((g) => `${g.total} ${g.used} ${g.words}\n`).join(''));
    fs.renameSync(`${file}.new`, file);
  };
  set(list);
  const library = path.join(BUILD, 'testing/fake_nvml.so');
  return { set, env: { LR_FAKE_NVML: file }, args: ['--nvml-library', library, '--memory-interval', '200ms'] };
}

// Writes `hours` of figures into the database of a router that does not run: `figures(i, age)` of GPU i at so many
// seconds before now is {used, total, utilization, temperature, power, clock}; undefined is not told.
export function writeHistory(dir, node, count, hours, figures) {
  const levels = [
    [0, 10, 3600],
    [1, 300, 86400],
    [2, 1800, 7 * 86400],
  ];
  const store = new DatabaseSync(path.join(dir, 'router.db'));
  const insert = store.prepare(
    `INSERT INTO history_gpus (level, slot, part, node, device, samples, memory_used, memory_total, utilization,
     utilization_told, memory_busy, memory_busy_told, temperature, temperature_told, power, power_told, clock, clock_told)
     VALUES (?, ?, 'test', ?, ?, 1, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?)`,
  );
  const now = Math.floor(Date.now() / 1000);
  store.exec('BEGIN');
  for (const [level, step, kept] of levels)
    for (let slot = Math.ceil((now - Math.min(kept, hours * 3600)) / step) * step; slot + step <= now; slot += step)
      for (let i = 0; i < count; i++) {
        const f = figures(i, now - slot);
        const told = (value) => (value === undefined ? [0, 0] : [Math.round(value), 1]);
        const rest = [f.utilization, f.temperature, f.power, f.clock].flatMap(told);
        insert.run(level, slot, node, `GPU-fake-${i}`, Math.round(f.used), f.total, ...rest);
      }
  store.exec('COMMIT');
  store.close();
}
