// What the tests of the package, the container and the manifests read: unit files, and the flags
// and settings that the program has.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { BIN, ROOT } from './program.mjs';

// {Service: {ExecStart: '...'}}; a key that is repeated keeps its last value.
export function unitFile(name) {
  const sections = {};
  let section;
  for (const line of fs.readFileSync(path.join(ROOT, 'deploy/systemd', name), 'utf8').split('\n')) {
    const header = line.match(/^\[(\w+)\]$/),
      entry = line.match(/^(\w+)=(.*)$/);
    if (header) section = sections[header[1]] = {};
    else if (entry) section[entry[1]] = entry[2];
  }
  return sections;
}

// The names of the settings of a command, and both spellings of a flag.
export function settingsIn(command) {
  const help = execFileSync(BIN, [command, '--help'], { encoding: 'utf8' });
  return new Set([...help.matchAll(/^ {2}--(?:\[no-\])?([a-z-]+)/gm)].map((match) => match[1]));
}

// The words after "llm-router": a command that exists, and flags that this command has.  Returns
// the mistakes.
export function wrongWords([command, ...words]) {
  let known;
  try {
    known = settingsIn(command);
  } catch {
    return [`llm-router has no command ${command}`];
  }
  return words
    .filter((word) => word.startsWith('--'))
    .map((word) => word.slice(2).split('=')[0])
    .filter((name) => name !== 'help' && !known.has(name) && !(name.startsWith('no-') && known.has(name.slice(3))))
    .map((name) => `llm-router ${command} has no flag --${name}`);
}
