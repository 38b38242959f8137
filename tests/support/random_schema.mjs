// Random JSON Schemas (2020-12) from the keywords that docs/structured-output.md lists, in combination.  The same seed
// gives the same schemas.  Some of them fit no value or are refused; that is left to whoever uses them.

const PATTERNS = [
  '^a',
  'b$',
  '^[a-c]+$',
  '[0-9]',
  '^(foo|bar)?$',
  '^.{2,4}$',
  '^\\w+-\\d{2}$',
  '^(?!foo)[a-z]*$',
  '\\s',
];
// Where ajv is neither stricter nor wrong.
const FORMATS = ['date', 'time', 'date-time', 'uuid', 'ipv4', 'ipv6', 'duration', 'json-pointer', 'hostname'];
const NAMES = ['a', 'b', 'c', 'foo', 'bar', 'foo bar', 'é', '日本', 'x-1'];
const CONSTANTS = [null, true, false, 0, 1, -7, 2.5, '', 'a', 'foo', 'é"\\', [], [1, 'a'], {}, { a: 1, b: [null] }];
const TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'];

export class RandomSchemas {
  #state;

  constructor(seed) {
    this.#state = seed;
  }

  // From 0 to below: mulberry32.
  #below(n) {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  }

  #often = (percent) => this.#below(100) < percent;
  #one = (list) => list[this.#below(list.length)];
  #some = (list, most) => [...new Set(Array.from({ length: 1 + this.#below(most) }, () => this.#one(list)))];
  #list = (most, make) => Array.from({ length: 1 + this.#below(most) }, make);
  #map = (names, make) => Object.fromEntries(names.map((name) => [name, make()]));

  // Adds each keyword with its probability.
  #with(schema, keywords) {
    for (const [word, [percent, make]] of Object.entries(keywords)) if (this.#often(percent)) schema[word] = make();
    return schema;
  }

  #string() {
    const min = this.#below(4);
    return this.#with(
      {},
      {
        minLength: [30, () => min],
        maxLength: [30, () => min + this.#below(12)],
        pattern: [40, () => this.#one(PATTERNS)],
        format: [25, () => this.#one(FORMATS)],
      },
    );
  }

  #number() {
    const low = this.#below(40) - 20;
    const high = low + this.#below(30);
    const half = () => (this.#often(30) ? 0.5 : 0);
    const number = this.#with(
      {},
      {
        minimum: [35, () => low + half()],
        exclusiveMinimum: [15, () => low - half()],
        maximum: [35, () => high + half()],
        exclusiveMaximum: [15, () => high + 1],
        multipleOf: [20, () => this.#one([1, 2, 3, 7, 0.5, 0.25, 10])],
      },
    );
    // Without bounds a multiple of 7 may need more digits than a double has.
    if (number.multipleOf % 1 === 0) Object.assign(number, { minimum: low, maximum: low + 1000 });
    return number;
  }

  // What a walk comes across: an array may have to go on until an item fits.
  #likely() {
    return this.#one([
      { type: this.#one(TYPES) },
      { const: this.#one(CONSTANTS) },
      { minimum: this.#below(5) },
      { minLength: 2 },
      { required: [this.#one(NAMES)] },
    ]);
  }

  #array(depth) {
    const min = this.#below(3);
    const inside = () => this.schema(depth - 1);
    if (this.#often(10)) return { items: { type: 'string', ...this.#string() }, uniqueItems: true, maxItems: 5 };
    const array = this.#with(
      {},
      {
        prefixItems: [20, () => this.#list(3, inside)],
        items: [75, () => (this.#often(5) ? false : inside())],
        minItems: [30, () => min],
        maxItems: [40, () => min + this.#below(4)],
      },
    );
    if (!('prefixItems' in array) && this.#often(25))
      Object.assign(
        array,
        { contains: this.#likely() },
        this.#with({}, { minContains: [30, () => this.#below(3)], maxContains: [30, () => 2 + this.#below(2)] }),
      );
    else if (!('items' in array) && this.#often(20)) array.unevaluatedItems = this.#often(50) ? false : inside();
    return array;
  }

  #object(depth) {
    const min = this.#below(3);
    const inside = () => this.schema(depth - 1);
    const names = (most) => this.#some(NAMES, most);
    const object = this.#with(
      {},
      {
        properties: [85, () => this.#map(names(4), inside)],
        required: [50, () => names(3)],
        patternProperties: [15, () => this.#map(this.#some(PATTERNS, 2), inside)],
        additionalProperties: [35, () => (this.#often(50) ? false : inside())],
        unevaluatedProperties: [10, () => (this.#often(50) ? false : inside())],
        propertyNames: [10, () => this.#string()],
        minProperties: [15, () => min],
        maxProperties: [15, () => min + this.#below(3)],
        dependentRequired: [15, () => this.#map(names(2), () => names(2))],
        dependentSchemas: [10, () => this.#map(names(1), inside)],
      },
    );
    // ajv 8 takes declared properties for unevaluated ones beside "dependentSchemas".
    if ('unevaluatedProperties' in object) delete object.dependentSchemas;
    return object;
  }

  #applied(depth) {
    const inside = () => this.schema(depth - 1);
    const simple = () => this.schema(0);
    return this.#with(
      {},
      {
        anyOf: [25, () => this.#list(3, inside)],
        oneOf: [20, () => this.#list(3, simple)],
        allOf: [25, () => this.#list(2, inside)],
        not: [20, simple],
        if: [20, simple],
        // biome-ignore lint/suspicious/noThenProperty: a keyword
        then: [30, inside],
        else: [30, inside],
        $ref: [15, () => `#/$defs/${this.#one(['one', 'two'])}`],
      },
    );
  }

  schema(depth) {
    const kind = this.#below(100);
    if (kind < 3) return true;
    if (kind < 12) return { enum: this.#some(CONSTANTS, 4) };
    if (kind < 16) return { const: this.#one(CONSTANTS) };
    if (kind < 26) return { type: this.#some(TYPES, 3) };
    const types = this.#some(depth > 0 ? TYPES.slice(2) : TYPES.slice(2, 5), 2);
    const schema = this.#often(85) ? { type: types.length === 1 ? types[0] : types } : {};
    if (types.includes('string')) Object.assign(schema, this.#string());
    if (types.includes('integer') || types.includes('number')) Object.assign(schema, this.#number());
    if (types.includes('array')) Object.assign(schema, this.#array(depth));
    if (types.includes('object')) Object.assign(schema, this.#object(depth));
    if (depth > 1 && this.#often(30)) Object.assign(schema, this.#applied(depth));
    return schema;
  }

  // A whole document.
  next() {
    const root = this.schema(3);
    const document = typeof root === 'object' ? root : {};
    document.$defs = { one: this.schema(1), two: this.schema(2) };
    return document;
  }
}
