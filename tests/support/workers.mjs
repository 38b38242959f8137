// The worker processes of a node.
import fs from 'node:fs';
import { until } from './scene.mjs';

export const workersOf = (node) =>
  fs
    .readdirSync('/proc')
    .filter((p) => /^\d+$/.test(p))
    .map(Number)
    .filter((pid) => {
      try {
        const parent = Number(fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop().split(' ')[1]);
        return (
          parent === node.child.pid && fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')[1] === 'worker'
        );
      } catch {
        return false;
      }
    });

export async function killWorkers(node) {
  const pids = await until('a worker runs', () => {
    const p = workersOf(node);
    return p.length > 0 && p;
  });
  pids.forEach((pid) => process.kill(pid, 'SIGKILL'));
}
