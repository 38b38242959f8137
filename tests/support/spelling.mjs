// JSON in the spelling of constrained output (docs/structured-output.md lists the limits).
//
// The same value can be written in many ways, and constrained output writes only some of them.  spell() changes the
// spelling of a value and nothing else:
//   white space   none
//   numbers       without an exponent, and without zeros at the end of a fraction: 1.0 and 1e0 become 1
//   properties    those that the schema declares come first, in the order of the schema
//   given values  a value of "const" or "enum" is written as the schema writes it
// Numbers are kept as texts, because JSON.parse loses their spelling.

class Numeral {
  constructor(source) {
    this.source = source;
  }
}

// A text as a tree, in which numbers keep their spelling.
export const read = (text) =>
  JSON.parse(text, (_, value, { source }) => (typeof value === 'number' ? new Numeral(source) : value));

const isObject = (value) => value !== null && typeof value === 'object' && !(value instanceof Numeral);

// The text of a tree.  part() may give the text of some parts; the others are written as they were read.
export function write(tree, part = () => undefined) {
  const text = part(tree);
  if (text !== undefined) return text;
  if (tree instanceof Numeral) return tree.source;
  if (Array.isArray(tree)) return `[${tree.map((item) => write(item, part)).join(',')}]`;
  if (!isObject(tree)) return JSON.stringify(tree);
  return `{${Object.entries(tree)
    .map(([name, item]) => `${JSON.stringify(name)}:${write(item, part)}`)
    .join(',')}}`;
}

// Whether two trees are the same value: 1 and 1.0 are, and so are objects whose properties come in another order.
export function isEqual(a, b) {
  if (a instanceof Numeral && b instanceof Numeral) return Number(a.source) === Number(b.source);
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return a === b;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && isEqual(a[name], b[name]))
  );
}

// 12.50e1 as 125.  A number of more than 20 digits before or after the point stays as it is.
function plain({ source }) {
  const [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(source);
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (point > 40 || point < -40) return source;
  const before = digits.slice(0, Math.max(point, 0)).padEnd(point, '0').replace(/^0+/, '') || '0';
  const after = (point < 0 ? '0'.repeat(-point) + digits : digits.slice(point)).replace(/0+$/, '');
  if (before.length > 20 || after.length > 20) return source;
  if (before === '0' && after === '') return '0';
  return sign + before + (after && `.${after}`);
}

// What a schema says about spelling: the given values, and the declared names with their ranks.
function rulesOf(schema, rules = { given: [], ranks: new Map() }) {
  if (!isObject(schema)) return rules;
  for (const [word, value] of Object.entries(schema)) {
    if (word === 'const') rules.given.push(value);
    if (word === 'enum' && Array.isArray(value)) rules.given.push(...value);
    if (word === 'properties' && isObject(value))
      for (const name of Object.keys(value)) if (!rules.ranks.has(name)) rules.ranks.set(name, rules.ranks.size);
    rulesOf(value, rules);
  }
  return rules;
}

// The tree with declared names first.  Names that are whole numbers stay in front: JavaScript puts them there.
function inOrder(tree, ranks) {
  if (!isObject(tree)) return tree;
  if (Array.isArray(tree)) return tree.map((item) => inOrder(item, ranks));
  const rank = ([name]) => ranks.get(name) ?? ranks.size;
  const members = Object.entries(tree).sort((a, b) => rank(a) - rank(b));
  return Object.fromEntries(members.map(([name, item]) => [name, inOrder(item, ranks)]));
}

// The text of a tree in the spelling of constrained output with this schema (a tree, too).
export function spell(tree, schema) {
  const { given, ranks } = rulesOf(schema);
  return write(inOrder(tree, ranks), (part) => {
    const same = given.find((one) => isEqual(one, part));
    if (same !== undefined) return write(same);
    return part instanceof Numeral ? plain(part) : undefined;
  });
}
