// Joins the modules of the first page into one file, so that the browser sends one request and not twenty.
//
// Each module becomes a function that runs once, in the order of imports, and returns its
// exports; its importers take the names from there.  Modules that stay separate files (other
// pages) import shared code from the joined file, so no module exists twice.  Exports are
// values, not live bindings.  An import or export line that this parser does not know makes the
// build fail.  Such lines begin at the start of a line, or after ; or } in minified code.
import path from 'node:path';
import vm from 'node:vm';

const variable = (name) => `$${name.replace(/\W/g, '_')}`;
const resolve = (from, to) => path.posix.join(path.posix.dirname(from), to);
const relative = (from, to) => path.posix.relative(path.posix.dirname(from), to).replace(/^(?!\.)/, './');

/** 'a, b as c' as [[a, a], [b, c]] */
const pairs = (list) =>
  list
    .split(',')
    .map((one) => one.trim().split(/\s+as\s+/))
    .filter(([name]) => name)
    .map(([name, as = name]) => [name, as]);
const IMPORT = /(?<=^|[;}])import\s*(?:(\w+)|\{([^{}]*)\})\s*from\s*["'](\.[^"']+)["'];?/gm;

/** What stands behind each import of a module: [module, [[name there, name here], ...]] */
const imports = (name, text) =>
  [...text.matchAll(IMPORT)].map(([, single, list, to]) => [
    resolve(name, to),
    single ? [['default', single]] : pairs(list),
  ]);

const take = (list, from) => `const { ${list.map(([there, here]) => `${there}: ${here}`).join(', ')} } = ${from};`;

function wrap(name, text, isJoined) {
  const exported = []; // [name outside, expression]
  const body = text
    .replace(/(?<=^|[;}])export\s*\{([^{}]*)\}\s*from\s*["'](\.[^"']+)["'];?/gm, (_, list, to) => {
      pairs(list).forEach(([there, as]) => exported.push([as, `${variable(resolve(name, to))}.${there}`]));
      return '';
    })
    .replace(IMPORT, (_, single, list, to) =>
      take(single ? [['default', single]] : pairs(list), variable(resolve(name, to))),
    )
    .replace(/(?<=^|[;}])export\s*\{([^{}]*)\};?/gm, (_, list) => {
      pairs(list).forEach(([inside, as]) => exported.push([as, inside]));
      return '';
    })
    .replace(/(?<=^|[;}])export\s+default\s+((?:async\s+)?function\s+(\w+))?/gm, (_, named, as) => {
      exported.push(['default', as ?? '$default']);
      return named ?? 'const $default = ';
    })
    .replace(/^export\s+((?:const|class|(?:async\s+)?function)\s+(\w+))/gm, (_, declaration, as) => {
      exported.push([as, as]);
      return declaration;
    })
    .replace(/\bimport\(["'](\.[^"']+)["']\)/g, (_, to) =>
      isJoined(resolve(name, to))
        ? `Promise.resolve(${variable(resolve(name, to))})`
        : `import('./${resolve(name, to)}')`,
    );
  return {
    exported: exported.map(([as]) => as),
    text: `const ${variable(name)} = (() => {\n${body}\nreturn { ${exported.map(([as, inside]) => `${as}: ${inside}`).join(', ')} };\n})();\n`,
  };
}

/** A module that is not joined: what it imports from a joined one comes from that file. */
const redirect = (name, text, into, isJoined) =>
  text.replace(IMPORT, (whole, single, list, to) => {
    const from = resolve(name, to);
    if (!isJoined(from)) return whole;
    return `import { ${variable(from)} } from '${relative(name, into)}'; ${take(single ? [['default', single]] : pairs(list), variable(from))}`;
  });

/**
 * @param {Map<string, string>} files all modules by name; imports are relative
 * @param {string[]} start modules the first page needs, the one that runs the page last
 * @param {string} into name of the joined file
 * @returns {Map<string, string>} the files to serve
 */
export function join(files, start, into) {
  const joined = new Map(); // name -> {exported, text}, in the order to run
  const open = new Set();
  const needed = new Set();
  const closure = (name) => {
    if (needed.has(name)) return;
    needed.add(name);
    for (const [, to] of files.get(name).matchAll(/\bfrom\s*["'](\.[^"']+)["']/g)) closure(resolve(name, to));
  };
  start.forEach(closure);
  const isJoined = (name) => needed.has(name);
  const visit = (name) => {
    if (joined.has(name)) return;
    if (open.has(name)) throw new Error(`${name} imports itself by way of others`);
    open.add(name);
    for (const [, to] of files.get(name).matchAll(/\bfrom\s*["'](\.[^"']+)["']/g)) visit(resolve(name, to));
    joined.set(name, wrap(name, files.get(name), isJoined));
  };
  start.forEach(visit);
  for (const [name, text] of files)
    for (const [from, list] of imports(name, text))
      for (const [there] of list)
        if (joined.has(from) && !joined.get(from).exported.includes(there))
          throw new Error(`${name} imports ${there}, which ${from} does not export`);

  const script = [...joined.values()].map(({ text }) => text).join('');
  new vm.Script(`'use strict';${script}`, { filename: into }); // an import or export left over is an error here
  const rest = [...files]
    .filter(([name]) => !joined.has(name))
    .map(([name, text]) => [name, redirect(name, text, into, isJoined)]);
  return new Map([[into, `${script}export { ${[...joined.keys()].map(variable).join(', ')} };\n`], ...rest]);
}
