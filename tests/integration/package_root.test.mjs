// The Debian package in a bare Debian: installed with its dependencies, started with the command line
// of the unit, upgraded, removed and purged.  systemd itself does not run there: the test does
// what the unit asks of systemd (user, StateDirectory, EnvironmentFile).
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { unitFile } from '../support/deploy.mjs';
import { ROOT } from '../support/program.mjs';
import { stopwatch, tempDir } from '../support/scene.mjs';

const LONG = process.env.LR_LONG === '1';
const run = promisify(execFile);

const build = async (...args) => {
  const out = tempDir('deb');
  const { stdout } = await run(path.join(ROOT, 'tools/deb'), ['--fast', '--out', out, ...args]);
  return stdout.trim().split('\n').at(-1);
};

if (LONG)
  describe('in a bare Debian', () => {
    let root;
    const { Service } = unitFile('llm-router.service');
    const inside = (name) => path.join(root, name);
    // Runs a command in the root; its output, or an error with the output.
    async function inRoot(command, { alone = false } = {}) {
      const args = [...(alone ? ['--alone'] : []), root, 'bash', '-c', command];
      try {
        return (await run(path.join(ROOT, 'tests/support/in_root'), args, { maxBuffer: 1 << 26, timeout: 300000 }))
          .stdout;
      } catch (error) {
        throw new Error(`${command}\n${error.stdout}\n${error.stderr}`);
      }
    }
    // The packages that a run has fetched are kept for the next one.
    const archives = path.join(ROOT, '.cache/bare-archives');
    const install = async (deb) => {
      const name = path.basename(deb);
      fs.copyFileSync(deb, inside(`var/cache/apt/${name}`));
      return inRoot(
        `DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends /var/cache/apt/${name} < /dev/null`,
      );
    };
    // Starts ExecStart as systemd would, and runs `script` while the server runs.
    const whileRunning = (script) =>
      inRoot(
        `set -e
        install -d -o ${Service.User} -g ${Service.Group} -m ${Service.StateDirectoryMode} /var/lib/${Service.StateDirectory}
        set -a; . ${Service.EnvironmentFile.replace(/^-/, '')}; set +a
        umask ${Service.UMask}
        ${Service.ExecStartPre.replace(/^\+/, '')}
        setpriv --reuid ${Service.User} --regid ${Service.Group} --clear-groups --no-new-privs --bounding-set=-all \
          ${Service.ExecStart} > /tmp/server.log 2>&1 &
        server=$!
        trap 'cat /tmp/server.log >&2' ERR
        for i in $(seq 600); do
          llm-router chat --model demo --temperature 0 'What is the capital of Japan?' > /tmp/answer 2> /dev/null && break
          kill -0 $server || { cat /tmp/server.log >&2; exit 1; }
          sleep 0.1
        done
        cat /tmp/answer
        ${script}
        kill -TERM $server
        wait $server`,
        { alone: true },
      );

    before(async () => {
      assert.equal(process.getuid(), 0, 'a root folder of another system needs the rights of root');
      root = path.join(tempDir('root'), 'debian');
      fs.mkdirSync(root);
      await run(path.join(ROOT, 'tests/support/bare_root'), [root], { timeout: 600000 });
      for (const file of fs.existsSync(archives) ? fs.readdirSync(archives) : [])
        if (file.endsWith('.deb')) fs.copyFileSync(path.join(archives, file), inside(`var/cache/apt/archives/${file}`));
      for (const name of ['etc/resolv.conf', 'etc/hosts'])
        if (fs.existsSync(`/${name}`)) fs.copyFileSync(`/${name}`, inside(name));
      for (const name of fs.readdirSync('/etc/apt/apt.conf.d'))
        if (
          !fs.existsSync(inside(`etc/apt/apt.conf.d/${name}`)) &&
          /proxy/i.test(fs.readFileSync(`/etc/apt/apt.conf.d/${name}`, 'utf8'))
        )
          fs.copyFileSync(`/etc/apt/apt.conf.d/${name}`, inside(`etc/apt/apt.conf.d/${name}`));
      fs.writeFileSync(inside('etc/apt/apt.conf.d/90keep'), 'APT::Keep-Downloaded-Packages "true";\n');
    });

    it("the package is installed, started with the unit's command line, and answers in under a minute", async () => {
      const deb = await build();
      // Downloads depend on the network and are not counted.
      fs.copyFileSync(deb, inside('var/cache/apt/first.deb'));
      const fetch = 'apt-get install -y -q --download-only --no-install-recommends /var/cache/apt/first.deb';
      // The lists in the root may be older than the archive.
      await inRoot(`${fetch} || { apt-get update -q && ${fetch}; }`);
      fs.mkdirSync(archives, { recursive: true });
      for (const file of fs.readdirSync(inside('var/cache/apt/archives')))
        if (file.endsWith('.deb')) fs.copyFileSync(inside(`var/cache/apt/archives/${file}`), path.join(archives, file));
      // A minute on an idle machine: the time in which others had the processors is not counted.
      const watch = stopwatch();
      await install(deb);
      const users = fs.readFileSync(inside('etc/passwd'), 'utf8');
      assert.match(users, /^llm-router:.*:\/var\/lib\/llm-router:.*nologin$/m);
      assert.match(users, /^llm-router-node:.*:\/var\/lib\/llm-router\/node:.*nologin$/m);
      // A machine without a GPU: the line that the configuration file proposes.
      const conf = inside('etc/llm-router/llm-router.conf');
      fs.writeFileSync(conf, fs.readFileSync(conf, 'utf8').replace(/^#device = cpu$/m, 'device = cpu'));
      const out = await whileRunning('llm-router keys create --name kept');
      const seconds = watch.ms / 1000;
      assert.match(out, /Tokyo/);
      assert.match(out, /lr-\w+/);
      assert.ok(seconds < 60, `${seconds} s from installation to the first answer and the stop`);
      assert.equal(fs.statSync(inside('var/lib/llm-router')).mode & 0o777, 0o751);
      assert.equal(fs.statSync(inside('var/lib/llm-router/router.db')).mode & 0o777, 0o600);
    });

    it('every library is there, and the pages can be read', async () => {
      assert.doesNotMatch(
        await inRoot('find /usr/lib/llm-router -name \\*.so | xargs ldd /usr/bin/llm-router'),
        /not found/,
      );
      assert.match(
        await inRoot('llm-router doctor --no-hub --data-dir /var/lib/llm-router || true'),
        /^ok +engine gptoss/m,
      );
    });

    it('a newer package replaces it and keeps changed configuration and data', async () => {
      const version = async () => (await inRoot('dpkg-query --show llm-router')).trim().split('\t')[1];
      const before = await version();
      await install(await build('--version', `${before}+1`));
      assert.equal(await version(), `${before}+1`);
      assert.match(fs.readFileSync(inside('etc/llm-router/llm-router.conf'), 'utf8'), /^device = cpu$/m);
      assert.match(await whileRunning('llm-router keys'), /kept/);
    });

    it('the older package can be installed again', async () => {
      const deb = fs.readdirSync(inside('var/cache/apt')).find((name) => /^llm-router_[^+]*\.deb$/.test(name));
      await inRoot(`dpkg -i /var/cache/apt/${deb}`);
      assert.match(await whileRunning('llm-router keys'), /kept/);
    });

    it('remove keeps configuration and data, purge deletes them', async () => {
      await inRoot('apt-get remove -y -q llm-router');
      for (const name of [
        'usr/bin/llm-router',
        'usr/lib/llm-router',
        'usr/share/llm-router',
        'usr/lib/systemd/system/llm-router.service',
      ])
        assert.ok(!fs.existsSync(inside(name)), name);
      for (const name of ['etc/llm-router/llm-router.conf', 'var/lib/llm-router/router.db'])
        assert.ok(fs.existsSync(inside(name)), name);
      await inRoot('apt-get purge -y -q llm-router');
      for (const name of ['etc/llm-router', 'var/lib/llm-router']) assert.ok(!fs.existsSync(inside(name)), name);
      assert.equal(spawnSync('chroot', [root, 'dpkg-query', '-W', 'llm-router']).status, 1);
      // The same package can be installed afresh.
      const deb = fs.readdirSync(inside('var/cache/apt')).find((name) => /^llm-router_[^+]*\.deb$/.test(name));
      await inRoot(
        `dpkg -i /var/cache/apt/${deb} && test -f /etc/llm-router/llm-router.conf && dpkg --purge llm-router`,
      );
    });
  });
