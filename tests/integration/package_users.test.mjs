// The node's service has a user of its own: an upgrade of the Debian package gives this user what belonged to the
// router's user, a downgrade gives it back, and a machine may change between one service and two.  In an overlay of
// this machine with a stand-in for systemctl (tests/support/overlay).
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

// The package as it was when the node had the router's user.
async function makeOlder(deb) {
  const folder = path.join(tempDir('older'), 'root'),
    older = path.join(path.dirname(folder), 'older.deb');
  await run('dpkg-deb', ['--raw-extract', deb, folder]);
  const change = (name, edit) => {
    const file = path.join(folder, name);
    fs.writeFileSync(file, edit(fs.readFileSync(file, 'utf8')));
  };
  for (const unit of ['llm-router-node', 'llm-router'])
    change(`usr/lib/systemd/system/${unit}.service`, (text) =>
      text
        .replaceAll(/^ExecStartPre=.*\n/gm, '')
        .replaceAll(/^(User|Group)=.*$/gm, '$1=llm-router')
        .replace(/^ReadWritePaths=.*$/m, 'StateDirectory=llm-router\nStateDirectoryMode=0750'),
    );
  change('usr/lib/sysusers.d/llm-router.conf', (text) => text.replace(/^u llm-router-node.*\n/m, ''));
  fs.rmSync(path.join(folder, 'usr/libexec'), { recursive: true });
  change('DEBIAN/md5sums', (text) => text.replaceAll(/^.* usr\/(libexec|lib\/sys).*\n/gm, ''));
  fs.writeFileSync(path.join(folder, 'DEBIAN/postrm'), '#!/bin/sh\n');
  change('DEBIAN/control', (text) => text.replace(/^Version: .*$/m, 'Version: 0.0.9'));
  await run('dpkg-deb', ['--root-owner-group', '-Zgzip', '-z1', '--build', folder, older]);
  return older;
}

const SCRIPT = `
set -eu
mkdir -p /run/systemd/system # the sign by which maintainer scripts know systemd
home=/var/lib/llm-router
say() { echo "$@"; }
install_package() { dpkg --install --force-depends --force-downgrade --force-confold "$1" > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; exit 1; }; }
owners() { say "$1 $(stat -c '%n=%U:%G' $home/router.db $home/node $home/node/node.lock $home/models $home/models/demo/config.json /etc/llm-router/tls/* | tr '\\n' ' ')"; }
user_of() { say "$1 runs as $(ps -o user:32= -p $(cat /run/stand-in/$2.service.pid))"; }
asked() {
  for i in $(seq 300); do
    curl -fsSk -m 60 https://127.0.0.1:11681/v1/completions -H 'content-type: application/json' \\
      -d '{"model":"demo","prompt":"The capital of Japan is","max_tokens":4}' > /tmp/answer 2> /tmp/problem && break
    sleep 0.1
  done
  grep -q '"completion_tokens":4' /tmp/answer && say "$1 answers" || { cat /tmp/problem; cat /run/stand-in/llm-router-node.service.log; exit 1; }
}

# A machine of a fleet, with the older package: everything belongs to one user.
cd /etc/llm-router
mkdir -m 755 tls
openssl req -x509 -newkey rsa:2048 -nodes -keyout tls/node.key -out tls/node.pem -subj /CN=localhost -days 2 2> /dev/null
cp tls/node.key tls/shared.key && chown llm-router tls/node.key && chmod 600 tls/node.key
printf '%s\\n' 'tls-cert = /etc/llm-router/tls/node.pem' 'tls-key = /etc/llm-router/tls/node.key' 'device = cpu' >> node.conf
install -d -o llm-router -g llm-router -m 750 $home
install -d -o llm-router -g llm-router -m 700 $home/models
cp -r /usr/share/llm-router/models/demo $home/models/demo
chown -R llm-router:llm-router $home/models
install -o llm-router -g llm-router -m 600 /dev/null $home/router.db
echo 'the router knows' > $home/router.db
systemctl start llm-router-node
asked older
user_of older llm-router-node
owners older

install_package $NEWER
asked newer
user_of newer llm-router-node
owners newer
worker=$(pgrep -f 'llm-router worker' | head -n 1)
say "worker runs as $(ps -o user:32= -p $worker)"
as_node() { setpriv --reuid=llm-router-node --regid=llm-router-node --clear-groups "$@"; }
as_node cat $home/router.db > /dev/null 2>&1 && say "the node's user reads the database"
as_node ls $home > /dev/null 2>&1 && say "the node's user lists the router's folder"
as_node touch $home/new > /dev/null 2>&1 && say "the node's user writes to the router's folder"

# What the router's configuration names too is not taken from the router.
systemctl stop llm-router-node
chown root:llm-router tls/shared.key && chmod 640 tls/shared.key
echo 'tls-key = /etc/llm-router/tls/shared.key' >> router.conf
sed -i 's/node.key/shared.key/' node.conf
/usr/libexec/llm-router/node-folders llm-router-node 2>&1 | sed 's/^/said: /'
say "shared $(stat -c %U:%G tls/shared.key)"
sed -i 's/shared.key/node.key/' node.conf

# One service instead of two, and back.
rm $home/router.db
sed -i 's/^#device = cpu$/device = cpu/' llm-router.conf
systemctl start llm-router
user_of up llm-router
say "up $(stat -c '%n=%U' $home/node $home/models | tr '\\n' ' ')"
systemctl stop llm-router
systemctl start llm-router-node
asked again
owners again

install_package $OLDER
asked downgraded
user_of downgraded llm-router-node
owners downgraded
systemctl stop llm-router-node
`;

// Without LR_LONG the two packages are not built: they take as long as a file of tests.
if (process.env.LR_LONG === '1')
  test('an upgrade gives the node a user of its own, who gets its folders and nothing of the router; a downgrade takes it back', async () => {
    assert.equal(process.getuid(), 0, 'an overlay of this machine needs the rights of root');
    const newer = await build(),
      older = await makeOlder(newer),
      file = path.join(tempDir('users'), 'script');
    fs.writeFileSync(file, `NEWER=${newer}\nOLDER=${older}\n${SCRIPT}`);
    const { stdout } = await run(path.join(ROOT, 'tests/support/overlay'), [older, file], { timeout: 300000 }).catch(
      ({ stdout, stderr }) => assert.fail(`${stdout}\n${stderr}`),
    );
    const ownersOf = (when) =>
      Object.fromEntries(
        stdout
          .match(new RegExp(`^${when} (/.*)$`, 'm'))[1]
          .trim()
          .split(' ')
          .map((pair) => pair.replace('/var/lib/llm-router/', '').replace('/etc/llm-router/', '').split('=')),
      );
    const [router, node] = ['llm-router:llm-router', 'llm-router-node:llm-router-node'];
    const certificate = { 'tls/node.pem': 'root:root' };
    const all = (user) => ({
      'router.db': router,
      node: user,
      'node/node.lock': user,
      models: user,
      'models/demo/config.json': user,
      ...certificate,
      'tls/node.key': user === node ? 'llm-router-node:root' : 'llm-router:root',
      'tls/shared.key': ownersOf('older')['tls/shared.key'],
    });
    assert.deepEqual(ownersOf('older'), all(router));
    assert.deepEqual(ownersOf('newer'), all(node));
    assert.deepEqual(ownersOf('again'), { ...all(node), 'tls/shared.key': 'root:llm-router' });
    assert.deepEqual(ownersOf('downgraded'), { ...all(router), 'tls/shared.key': 'root:llm-router' });
    for (const [what, user] of [
      ['older', 'llm-router'],
      ['newer', 'llm-router-node'],
      ['worker', 'llm-router-node'],
      ['up', 'llm-router'],
      ['downgraded', 'llm-router'],
    ])
      assert.match(stdout, new RegExp(`^${what} runs as ${user}$`, 'm'));
    for (const when of ['older', 'newer', 'again', 'downgraded'])
      assert.match(stdout, new RegExp(`^${when} answers$`, 'm'));
    assert.match(stdout, /^up \S+node=llm-router \S+models=llm-router $/m);
    assert.doesNotMatch(stdout, /^the node's user/m);
    assert.match(stdout, /^shared root:llm-router$/m);
    assert.match(stdout, /^said: node-folders: llm-router-node cannot read \/etc\/llm-router\/tls\/shared\.key/m);
  });
