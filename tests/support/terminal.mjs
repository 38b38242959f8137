// A program in a pseudo terminal, which script(1) provides.  Its parts are told from each other by what the program
// writes: `out` has every byte, `text` has them without escape sequences.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { track, until } from './scene.mjs';

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;

export class Terminal {
  constructor(command, { env = {}, columns = 100, rows = 30 } = {}) {
    this.out = '';
    // The shell outlives the program and prints how it ended, and the modes that it left the terminal in.
    const line = `stty cols ${columns} rows ${rows}; trap : INT; ${command.map(quote).join(' ')}; echo "[ended $?]"; stty -a`;
    this.child = track(
      spawn('script', ['-qfc', line, '/dev/null'], {
        env: { ...process.env, SHELL: '/bin/sh', TERM: 'xterm-256color', ...env },
        stdio: ['pipe', 'pipe', 'inherit'],
      }),
    );
    this.child.stdin.on('error', () => {});
    this.child.stdout.on('data', (data) => {
      this.out += data;
    });
    this.closed = new Promise((done) => this.child.on('close', done));
  }

  get text() {
    return stripVTControlCharacters(this.out);
  }

  // Every byte, with a sign for the escape character, for regular expressions.
  get marked() {
    return this.out.replaceAll('\x1b', '␛');
  }

  type(text) {
    this.child.stdin.write(text);
  }

  shows(what) {
    return until(
      `the terminal shows ${what}`,
      () => (typeof what === 'string' ? this.text.includes(what) : what.test(this.text)) && this.text,
    ).catch((e) => {
      throw new Error(`${e.message}: ${JSON.stringify(this.out)}`);
    });
  }

  // The program: the shell's child.
  get pid() {
    const childOf = (pid) => Number(fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')[0]);
    return childOf(childOf(this.child.pid));
  }

  resize(columns, rows) {
    const device = fs.readlinkSync(`/proc/${this.pid}/fd/0`);
    execFileSync('stty', ['-F', device, 'cols', String(columns), 'rows', String(rows)]);
  }

  // The program's exit code; also whether the terminal reads whole lines and echoes again.
  async ended() {
    await until(
      `the program has ended: ${JSON.stringify(this.out)}`,
      () => this.child.exitCode !== null || this.child.signalCode !== null,
    );
    await this.closed;
    const [, code] = this.text.match(/\[ended (\d+)\]/) ?? [];
    return { code: Number(code), isRestored: /[^-]icanon/.test(this.text) && /[^-]echo\b/.test(this.text) };
  }
}
