// Kustomize, as far as deploy/kubernetes uses it: resources, namespace, labels, images, replicas and
// JSON patches.  An unknown word in a kustomization is an error.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

// Every document of each of these YAML texts.  PyYAML comes with yamllint, which lint needs anyway.
function parseAll(texts) {
  const program = `import json, sys, yaml
json.dump([[d for d in yaml.load_all(t, yaml.CSafeLoader) if d is not None] for t in json.load(sys.stdin)], sys.stdout)`;
  return JSON.parse(
    execFileSync('python3', ['-c', program], { input: JSON.stringify(texts), encoding: 'utf8', maxBuffer: 1 << 26 }),
  );
}
export const parseYaml = (text) => parseAll([text])[0];

// The files below a folder are parsed together: a start of Python takes longer than they do.
const parsed = new Map();
export function loadYaml(folder) {
  const files = fs.readdirSync(folder, { recursive: true }).map((name) => path.resolve(folder, name));
  const yaml = files.filter((file) => file.endsWith('.yaml'));
  parseAll(yaml.map((file) => fs.readFileSync(file, 'utf8'))).forEach((documents, i) => {
    parsed.set(yaml[i], documents);
  });
}
const readYaml = (file) => structuredClone(parsed.get(path.resolve(file)));
const patchSteps = new Map();

const CLUSTER_WIDE = new Set(['Namespace']);

function patch(resource, { op, path: at, value }) {
  const steps = at
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = steps.pop();
  const parent = steps.reduce((node, step) => node?.[step], resource);
  if (parent === undefined) throw new Error(`${resource.kind} has no ${at}`);
  if (op !== 'add' && !(last in parent)) throw new Error(`${resource.kind} has no ${at}`);
  if (op === 'remove') {
    if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else delete parent[last];
  } else if (op === 'add' && Array.isArray(parent)) {
    if (last === '-') parent.push(value);
    else parent.splice(Number(last), 0, value);
  } else parent[last] = value;
}

const containers = (resource) => {
  const spec = resource.spec?.template?.spec;
  return spec ? [...(spec.initContainers ?? []), ...spec.containers] : [];
};

const RULES = {
  apiVersion: () => {},
  kind: () => {},
  resources: () => {},
  namespace(all, name) {
    for (const r of all)
      if (r.kind === 'Namespace') r.metadata.name = name;
      else if (!CLUSTER_WIDE.has(r.kind)) r.metadata.namespace = name;
  },
  labels(all, rows) {
    for (const { pairs, ...more } of rows) {
      if (Object.keys(more).length > 0) throw new Error(`labels: ${Object.keys(more)} is not supported`);
      for (const r of all) r.metadata.labels = { ...r.metadata.labels, ...pairs };
    }
  },
  images(all, rows) {
    for (const { name, newName, newTag } of rows)
      for (const container of all.flatMap(containers))
        if (container.image === name) container.image = `${newName ?? name}${newTag ? `:${newTag}` : ''}`;
  },
  replicas(all, rows) {
    for (const { name, count } of rows) {
      const found = all.filter((r) => r.metadata.name === name && r.kind === 'Deployment');
      if (found.length !== 1) throw new Error(`replicas: there is no ${name}`);
      found[0].spec.replicas = count;
    }
  },
  patches(all, rows) {
    for (const { target, patch: text } of rows) {
      const found = all.filter((r) => r.kind === target.kind && r.metadata.name === target.name);
      if (found.length !== 1) throw new Error(`patches: there is no ${target.kind} ${target.name}`);
      if (!patchSteps.has(text)) patchSteps.set(text, parseYaml(text)[0]);
      for (const step of structuredClone(patchSteps.get(text))) patch(found[0], step);
    }
  },
};

// The resources of a folder below the loaded one, and the files that they come from.
export function kustomize(folder) {
  const file = path.join(folder, 'kustomization.yaml');
  const [plan] = readYaml(file);
  const files = [file];
  const all = (plan.resources ?? []).flatMap((name) => {
    const at = path.join(folder, name);
    if (!fs.statSync(at).isDirectory()) {
      files.push(at);
      return readYaml(at);
    }
    const inner = kustomize(at);
    files.push(...inner.files);
    return inner.resources;
  });
  for (const word of Object.keys(plan)) if (!RULES[word]) throw new Error(`${file}: ${word} is not supported`);
  for (const word of ['patches', 'namespace', 'labels', 'images', 'replicas'])
    if (plan[word] !== undefined) RULES[word](all, plan[word]);
  return { resources: all, files };
}
