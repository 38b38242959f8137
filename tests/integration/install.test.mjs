// install.sh against a server of releases on this machine: what it installs, and what it refuses.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ROOT } from '../support/program.mjs';
import { Releases } from '../support/release.mjs';
import { tempDir } from '../support/scene.mjs';

const isLong = process.env.LR_LONG === '1';
const work = tempDir('install');
let releases;
let other; // a key that install.sh does not know
before(async () => {
  releases = await new Releases(work).listen();
  releases.publish('1.0.0');
  releases.publish('1.1.0', { isLatest: true });
  other = releases.newKey('other.pem');
});
after(() => releases.close());

// Folders of programs: all that install.sh may use, less some, plus scripts.
const TOOLS =
  'awk basename cat chmod cp curl cut dirname getconf grep gzip head id ln mkdir mktemp mv openssl readlink rm sed sha256sum sha512sum sh shasum tail tar tr uname wget'.split(
    ' ',
  );
let folders = 0;
function tools({ without = [], scripts = {} } = {}) {
  const folder = path.join(work, `tools-${folders++}`);
  fs.mkdirSync(folder);
  for (const name of TOOLS.filter((name) => !without.includes(name) && !(name in scripts))) {
    const found = ['/usr/local/bin', '/usr/bin', '/bin']
      .map((at) => path.join(at, name))
      .find((at) => fs.existsSync(at));
    if (found) fs.symlinkSync(found, path.join(folder, name));
  }
  for (const [name, text] of Object.entries(scripts))
    fs.writeFileSync(path.join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return folder;
}
const everything = tools();

let homes = 0;
const newHome = () => {
  const home = path.join(work, `home-${homes++}`);
  fs.mkdirSync(home);
  return home;
};

// The outcome of install.sh.
function install(words, { home, shell = ['sh'], PATH = everything, script = releases.script, env = {} }) {
  return new Promise((done) => {
    const all = [...shell.slice(1), script, '--prefix', path.join(home, 'local'), ...words];
    execFile(shell[0], all, { env: { HOME: home, PATH, ...env }, encoding: 'utf8' }, (error, stdout, stderr) =>
      done({ code: error ? error.code : 0, stdout, stderr }),
    );
  });
}
const programOf = (home) => path.join(home, 'local/bin/llm-router');
const pointsAt = (home) => fs.readlinkSync(path.join(home, 'local/lib/llm-router-releases/current'));
const versionOf = (home) => execFileSync(programOf(home), ['version'], { encoding: 'utf8' });

async function refused(words, options, sentence) {
  const home = options.home ?? newHome();
  const before = fs.existsSync(path.join(home, 'local')) ? pointsAt(home) : undefined;
  const { code, stderr } = await install(words, { ...options, home });
  assert.equal(code, 1, stderr);
  assert.match(stderr, sentence);
  assert.equal(stderr.trim().split('\n').length, 1, 'one sentence');
  if (before === undefined) assert.ok(!fs.existsSync(programOf(home)), 'nothing is installed');
  else assert.equal(pointsAt(home), before, 'the installed version stays');
}

describe('install.sh', () => {
  it('installs the newest release, says before what it will do, and leaves a program that runs', async () => {
    const home = newHome();
    const { code, stdout, stderr } = await install([], { home });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^llm-router 1\.1\.0 will be installed:\n {2}from .*1\.1\.0.*\n {2}program .*bin\/llm-router/);
    assert.match(versionOf(home), /^llm-router \d/);
    assert.equal(pointsAt(home), '1.1.0');
  });

  it('run again it replaces the files; another version replaces the link, and the version before stays', async () => {
    const home = newHome();
    for (const version of ['1.0.0', '1.0.0', '1.1.0']) {
      const { code, stderr } = await install(['--version', version], { home });
      assert.equal(code, 0, stderr);
      assert.equal(pointsAt(home), version);
    }
    assert.deepEqual(fs.readdirSync(path.join(home, 'local/lib/llm-router-releases')).sort(), [
      '1.0.0',
      '1.1.0',
      'current',
    ]);
    await refused(
      ['--version', '1.0.0'],
      { home },
      /1\.0\.0 is older than the installed version 1\.1\.0; --downgrade allows it/,
    );
    const { code } = await install(['--version', '1.0.0', '--downgrade'], { home });
    assert.equal(code, 0);
    assert.equal(pointsAt(home), '1.0.0');
  });

  it('runs in dash, in busybox and in bash as a POSIX shell, and from a pipe', async () => {
    const shells = [['dash'], ['bash', '--posix']];
    if (fs.existsSync('/usr/bin/busybox') || fs.existsSync('/bin/busybox')) shells.push(['busybox', 'sh']);
    for (const shell of shells) {
      const home = newHome();
      const PATH = `${everything}:/usr/bin:/bin`;
      const { code, stderr } = await install([], { home, shell, PATH });
      assert.equal(code, 0, `${shell}: ${stderr}`);
    }
    const home = newHome();
    const piped = path.join(work, 'piped.sh');
    fs.writeFileSync(piped, `cat ${releases.script} | sh -s -- "$@"`);
    await install([], { home, script: piped });
    assert.equal(pointsAt(home), '1.1.0');
  });

  it('uninstalls, and removes data only with --purge', async () => {
    const home = newHome();
    await install([], { home });
    fs.mkdirSync(path.join(home, '.llm-router'));
    const kept = await install(['--uninstall'], { home });
    assert.match(kept.stdout, /data stays in .*\.llm-router/);
    assert.ok(!fs.existsSync(programOf(home)) && fs.existsSync(path.join(home, '.llm-router')));
    await install([], { home });
    await install(['--uninstall', '--purge'], { home });
    assert.ok(!fs.existsSync(path.join(home, '.llm-router')));
    const { code, stderr } = await install(['--uninstall'], { home });
    assert.equal(code, 1);
    assert.match(stderr, /no llm-router of this script/);
  });

  it('works with wget, with shasum and with openssl alone, and says what is missing without them', async () => {
    for (const without of [
      ['curl', 'sha256sum', 'sha512sum', 'openssl'],
      ['wget', 'sha256sum', 'sha512sum', 'shasum'],
      ['openssl', 'shasum'],
    ]) {
      const home = newHome();
      const { code, stderr } = await install([], { home, PATH: tools({ without }) });
      assert.equal(code, 0, `without ${without}: ${stderr}`);
    }
    await refused([], { PATH: tools({ without: ['curl', 'wget'] }) }, /needs curl or wget/);
    const sums = ['sha256sum', 'sha512sum', 'shasum', 'openssl'];
    await refused([], { PATH: tools({ without: sums }) }, /needs sha256sum, shasum or openssl/);
  });

  it('refuses an archive with a changed byte, a foreign, a missing and a changed signature', async () => {
    const { folder, archive, sums } = releases.publish('1.2.0');
    const refusedAs = (sentence) => refused(['--version', '1.2.0'], {}, sentence);
    const good = fs.readFileSync(archive);
    const bad = Buffer.from(good);
    bad[good.length >> 1] ^= 1;
    fs.writeFileSync(archive, bad);
    await refusedAs(/has the checksum [0-9a-f]{64}, and SHA256SUMS says [0-9a-f]{64}; nothing was installed/);
    fs.writeFileSync(archive, good);
    releases.sign('1.2.0', other);
    await refusedAs(/has no signature of the key/);
    releases.sign('1.2.0');
    fs.appendFileSync(sums, 'x\n');
    await refusedAs(/has no signature of the key/);
    fs.rmSync(path.join(folder, 'SHA256SUMS.sig'));
    await refusedAs(/could not download .*SHA256SUMS\.sig/);
  });

  it('accepts the signatures that OpenSSL makes and no other, whatever awk', async () => {
    const library = fs.readFileSync(releases.script, 'utf8').replace(/\nmain "\$@"\n$/, '\n');
    const file = path.join(work, 'message');
    const rounds = isLong ? 100 : 1;
    const awks = ['mawk', 'busybox', ...(isLong ? ['gawk', 'original-awk'] : [])]
      .map((name) => `/usr/bin/${name}`)
      .filter((at) => fs.existsSync(at));
    for (const awk of awks) {
      const PATH = tools({ scripts: { awk: awk.endsWith('busybox') ? `exec ${awk} awk "$@"` : `exec ${awk} "$@"` } });
      for (let round = 0; round < rounds; round++) {
        const key = releases.newKey('round.pem');
        fs.writeFileSync(file, Buffer.from(`message ${round} ${'x'.repeat(round * 37)}`));
        const signature = execFileSync('openssl', ['pkeyutl', '-sign', '-inkey', key, '-rawin', '-in', file]).toString(
          'hex',
        );
        const hex = execFileSync(path.join(ROOT, 'tools/release-sign'), ['--public', key], { encoding: 'utf8' }).trim();
        const digit = (round * 31) % 128;
        const changed = signature.slice(0, digit) + (signature[digit] === '0' ? '1' : '0') + signature.slice(digit + 1);
        // The same S plus the order of the group: a second spelling, which RFC 8032 refuses.
        const order = 2n ** 252n + 27742317777372353535851937790883648493n;
        const little = (text) => BigInt(`0x${text.match(/../g).reverse().join('')}`);
        const big = (little(signature.slice(64)) + order)
          .toString(16)
          .padStart(64, '0')
          .match(/../g)
          .reverse()
          .join('');
        const ask = `${library}\nset +e\nsummer=coreutils work=${work} public_key=${hex}
          for s in ${signature} ${changed} ${signature.slice(0, 64)}${big} ${signature}0 ''; do verify "$s" ${file}; printf '%s' $?; done`;
        const got = execFileSync('sh', ['-c', ask], { env: { PATH, HOME: work }, encoding: 'utf8' });
        assert.equal(got, '01111', `${awk}, round ${round}: ${signature} of ${hex}`);
      }
    }
    assert.ok(awks.length > 0);
  });

  it('refuses plain http, a system without glibc, WSL 1, other processors and a program of others, by name', async () => {
    await refused(['--base-url', 'http://releases.example.org'], {}, /by https only/);
    await refused(['--base-url', 'https://releases.llm-router.invalid'], {}, /knows no address of releases/);
    const uname = (system, machine, release) =>
      `case $1 in -s) echo ${system} ;; -m) echo ${machine} ;; -r) echo ${release} ;; esac`;
    const as = (...words) => ({ PATH: tools({ scripts: { uname: uname(...words) } }) });
    await refused([], as('Linux', 'x86_64', '4.4.0-19041-Microsoft'), /WSL 1.*wsl --set-version/);
    await refused([], as('Linux', 'riscv64', '6.1.0'), /Linux on riscv64 is not supported/);
    await refused([], as('Darwin', 'x86_64', '23.0'), /Intel processor/);
    await refused(
      [],
      { PATH: tools({ scripts: { getconf: 'echo glibc 2.28' } }) },
      /has glibc 2\.28, and llm-router needs 2\.31/,
    );
    const home = newHome();
    fs.mkdirSync(path.join(home, 'local/bin'), { recursive: true });
    fs.writeFileSync(programOf(home), 'of a package');
    const { code, stderr } = await install([], { home });
    assert.equal(code, 1);
    assert.match(stderr, /was installed by something else/);
    assert.equal(fs.readFileSync(programOf(home), 'utf8'), 'of a package');
  });

  it('cut off anywhere it changes nothing', async () => {
    const text = fs.readFileSync(releases.script, 'utf8');
    for (let part = 1; part < 10; part++) {
      const home = newHome();
      const script = path.join(work, 'cut.sh');
      fs.writeFileSync(script, text.slice(0, Math.floor((text.length * part) / 10)));
      await install([], { home, script });
      assert.deepEqual(fs.readdirSync(home), []);
    }
  });
});
