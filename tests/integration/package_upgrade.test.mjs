// An upgrade of the Debian package while its router serves, in an overlay of this machine with a stand-in for
// systemctl (tests/support/overlay).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { ROOT } from '../support/program.mjs';
import { tempDir } from '../support/scene.mjs';

const run = promisify(execFile);

const build = async (...args) => {
  const { stdout } = await run(path.join(ROOT, 'tools/deb'), ['--fast', '--out', tempDir('deb'), ...args]);
  return stdout.trim().split('\n').at(-1);
};

const UPGRADE = `
set -eu
mkdir -p /run/systemd/system # the sign by which maintainer scripts know systemd
systemctl start llm-router-router
pid=/run/stand-in/llm-router-router.service.pid
old=$(cat $pid)
{
  asked=0
  while [ ! -e /tmp/enough ]; do
    curl -fsS -m 20 http://127.0.0.1:11680/livez > /dev/null || echo failed
    asked=$((asked + 1))
  done
  echo "asked $asked"
} > /tmp/asked 2>&1 &
client=$!
dpkg --install --force-depends $NEWER > /tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; exit 1; }
for i in $(seq 600); do
  [ "$(cat $pid)" = "$old" ] || [ -d /proc/$old ] || break
  [ -d /proc/$old ] || break
  sleep 0.1
done
touch /tmp/enough
wait $client
cat /tmp/asked
readlink /proc/$(cat $pid)/exe
llm-router version
[ "$(cat $pid)" != "$old" ] && [ ! -d /proc/$old ] && echo replaced
systemctl stop llm-router-router
`;

// Without LR_LONG the two packages are not built: they take as long as a file of tests.
if (process.env.LR_LONG === '1')
  test('while the package is upgraded, the router answers every request and then runs the new program', async () => {
    assert.equal(process.getuid(), 0, 'an overlay of this machine needs the rights of root');
    const first = await build();
    const newer = await build('--version', '9.0.0');
    const file = path.join(tempDir('upgrade'), 'script');
    fs.writeFileSync(file, `NEWER=${newer}\n${UPGRADE}`);
    const { stdout } = await run(path.join(ROOT, 'tests/support/overlay'), [first, file], { timeout: 300000 });
    assert.match(stdout, /^replaced$/m);
    assert.doesNotMatch(stdout, /failed|curl|deleted/);
    assert.ok(Number(stdout.match(/^asked (\d+)$/m)[1]) > 10, stdout);
  });
