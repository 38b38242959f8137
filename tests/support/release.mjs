// A server of releases on 127.0.0.1, whose archives have the program under test and are signed with a key
// that is made here.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { BIN, ROOT } from './program.mjs';

const TARGET = `linux-${process.arch === 'arm64' ? 'arm64' : 'x64'}`;
const tool = (name, ...words) => execFileSync(path.join(ROOT, 'tools', name), words, { encoding: 'utf8' }).trim();

export class Releases {
  constructor(folder) {
    this.folder = folder;
    this.site = path.join(folder, 'site');
    this.key = this.newKey('key.pem');
    this.requests = [];
    fs.mkdirSync(this.site, { recursive: true });
  }

  newKey(name) {
    const file = path.join(this.folder, name);
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', file], { stdio: 'ignore' });
    return file;
  }

  async listen() {
    this.server = http.createServer((request, response) => {
      this.requests.push(request.url);
      const file = path.join(this.site, path.normalize(request.url));
      if (!fs.existsSync(file) || fs.statSync(file).isDirectory()) return response.writeHead(404).end();
      response.writeHead(200, { 'content-length': fs.statSync(file).size });
      fs.createReadStream(file).pipe(response);
    });
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    // The scripts with this address and this key, as the publisher makes them.
    this.versions = path.join(this.folder, 'versions');
    fs.writeFileSync(this.versions, `base_url=${this.url}\npublic_key=${tool('release-sign', '--public', this.key)}\n`);
    tool('release-install', this.site, this.versions);
    this.script = path.join(this.site, 'install.sh');
    return this;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  // A release: an archive with the files of `make`, its checksum, its signature.  Without `make`: the program.
  publish(version, { make = (folder) => this.program(folder), key = this.key, isLatest = false } = {}) {
    const folder = path.join(this.site, version);
    const name = `llm-router-${version}-${TARGET}`;
    fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(path.join(folder, name, 'bin'), { recursive: true });
    make(path.join(folder, name));
    execFileSync('tar', [
      '-C',
      folder,
      '--use-compress-program=gzip -1',
      '-cf',
      path.join(folder, `${name}.tar.gz`),
      name,
    ]);
    fs.rmSync(path.join(folder, name), { recursive: true });
    fs.writeFileSync(path.join(folder, 'SHA256SUMS'), execFileSync('sha256sum', [`${name}.tar.gz`], { cwd: folder }));
    this.sign(version, key);
    if (isLatest) fs.writeFileSync(path.join(this.site, 'latest'), `${version}\n`);
    return { folder, archive: path.join(folder, `${name}.tar.gz`), sums: path.join(folder, 'SHA256SUMS') };
  }

  sign(version, key = this.key) {
    tool('release-sign', key, path.join(this.site, version));
  }

  program(folder) {
    fs.copyFileSync(BIN, path.join(folder, 'bin/llm-router'));
    tool('release-share', path.join(folder, 'share/llm-router'), this.versions);
  }
}
