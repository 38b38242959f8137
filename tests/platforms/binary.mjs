// What a program file says about itself: ELF by readelf, Mach-O by its load commands, PE by objdump.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';

const tool = (name, ...args) => execFileSync(name, args, { encoding: 'utf8', maxBuffer: 1 << 28 });

/** { libraries, versions: ['2.2.5', ...], exports } of an ELF file. */
export function elf(file) {
  const symbols = tool('readelf', '--dyn-syms', '-W', file);
  return {
    libraries: [...tool('readelf', '-d', '-W', file).matchAll(/\(NEEDED\).*\[(.*)\]/g)].map((m) => m[1]),
    versions: [...new Set([...symbols.matchAll(/@+GLIBC_([\d.]+)/g)].map((m) => m[1]))],
    exports: symbols
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((part) => part[4] === 'GLOBAL' && part[6] !== 'UND' && part[7])
      .map((part) => part[7]),
  };
}

/** The DLLs that a PE file needs, and what it exports. */
export function pe(file) {
  const text = tool('objdump', '-p', file);
  const table = text.match(/\[Ordinal\/Name Pointer\] Table.*\n([\s\S]*?)\n\n/)?.[1] ?? '';
  return {
    libraries: [...text.matchAll(/DLL Name: (\S+)/g)].map((m) => m[1]),
    exports: [...table.matchAll(/\] (\S+)$/gm)].map((m) => m[1]),
  };
}

const LOAD_DYLIB = 0xc;
const CODE_SIGNATURE = 0x1d;
const BUILD_VERSION = 0x32;

/** A Mach-O file of one processor: { cpu, libraries, system, oldest, signature }. */
export function macho(file) {
  const bytes = fs.readFileSync(file);
  if (bytes.readUInt32LE(0) !== 0xfeedfacf) throw new Error(`${file} is no Mach-O file of 64 bits`);
  const out = { cpu: bytes.readUInt32LE(4), libraries: [] };
  for (let at = 32, i = 0; i < bytes.readUInt32LE(16); i++) {
    const [command, size] = [bytes.readUInt32LE(at) & 0x7fffffff, bytes.readUInt32LE(at + 4)];
    if (command === LOAD_DYLIB) {
      const name = at + bytes.readUInt32LE(at + 8);
      out.libraries.push(bytes.toString('utf8', name, bytes.indexOf(0, name)));
    } else if (command === BUILD_VERSION) {
      const version = bytes.readUInt32LE(at + 12);
      out.system = bytes.readUInt32LE(at + 8) === 1 ? 'macOS' : 'another';
      out.oldest = `${version >> 16}.${(version >> 8) & 255}`;
    } else if (command === CODE_SIGNATURE) {
      out.signature = signature(bytes, bytes.readUInt32LE(at + 8));
    }
    at += size;
  }
  return out;
}

// The code directory of a signature; its numbers are big-endian.
function signature(bytes, at) {
  if (bytes.readUInt32BE(at) !== 0xfade0cc0) throw new Error('no signature where the header says');
  for (let i = 0; i < bytes.readUInt32BE(at + 8); i++) {
    const part = at + bytes.readUInt32BE(at + 16 + 8 * i);
    if (bytes.readUInt32BE(part) !== 0xfade0c02) continue;
    const word = (n) => bytes.readUInt32BE(part + n);
    const [hashes, count, limit, page] = [part + word(16), word(28), word(32), 1 << bytes[part + 39]];
    let isRight = count === Math.ceil(limit / page);
    for (let n = 0; n < count; n++) {
      const sum = createHash('sha256')
        .update(bytes.subarray(n * page, Math.min(limit, (n + 1) * page)))
        .digest();
      isRight &&= sum.equals(bytes.subarray(hashes + 32 * n, hashes + 32 * (n + 1)));
    }
    return { isAdHoc: (word(12) & 2) !== 0, isRight };
  }
  throw new Error('the signature has no code directory');
}
