// The manifests for Kubernetes, the Containerfile and the systemd units: neither Kubernetes nor a
// container engine runs here, so these tests read the files.  Kubernetes' published schemas come
// from the npm packages kubernetes-models and @kubernetes-models/prometheus-operator.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { unitFile, wrongWords } from '../support/deploy.mjs';
import { kustomize, loadYaml, parseYaml } from '../support/kustomize.mjs';
import { BIN, BUILD, ROOT } from '../support/program.mjs';
import { tempDir } from '../support/scene.mjs';

const LONG = process.env.LR_LONG === '1';

const KUBERNETES = path.join(ROOT, 'deploy/kubernetes');
loadYaml(KUBERNETES);
const FOLDERS = ['base', ...fs.readdirSync(path.join(KUBERNETES, 'overlays')).map((name) => `overlays/${name}`)];
const read = (name) => fs.readFileSync(path.join(ROOT, name), 'utf8');

// The published schema of each kind.
const SCHEMAS = {
  'v1 Namespace': 'kubernetes-models/_schemas/IoK8sApiCoreV1Namespace',
  'v1 Service': 'kubernetes-models/_schemas/IoK8sApiCoreV1Service',
  'v1 ServiceAccount': 'kubernetes-models/_schemas/IoK8sApiCoreV1ServiceAccount',
  'apps/v1 Deployment': 'kubernetes-models/_schemas/IoK8sApiAppsV1Deployment',
  'apps/v1 DaemonSet': 'kubernetes-models/_schemas/IoK8sApiAppsV1DaemonSet',
  'policy/v1 PodDisruptionBudget': 'kubernetes-models/_schemas/IoK8sApiPolicyV1PodDisruptionBudget',
  'networking.k8s.io/v1 NetworkPolicy': 'kubernetes-models/_schemas/IoK8sApiNetworkingV1NetworkPolicy',
  'monitoring.coreos.com/v1 ServiceMonitor': pathToFileURL(
    path.join(
      ROOT,
      'tests/node_modules/@kubernetes-models/prometheus-operator/_schemas',
      'ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1ServiceMonitor.js',
    ),
  ).href,
};

// The schemas allow unknown fields.  A validator reads every field that it knows, so a field that it
// has not read is unknown.
function watched(value, at, unread) {
  if (value === null || typeof value !== 'object') return value;
  const children = {};
  for (const key of Object.keys(value)) {
    unread.add(`${at}/${key}`);
    children[key] = watched(value[key], `${at}/${key}`, unread);
  }
  return new Proxy(value, {
    get(target, key) {
      unread.delete(`${at}/${String(key)}`);
      return Object.hasOwn(target, key) ? (children[key] ?? target[key]) : target[key];
    },
  });
}
const parentOf = (at) => at.slice(0, at.lastIndexOf('/'));

async function mistakesIn(resource) {
  const schema = SCHEMAS[`${resource.apiVersion} ${resource.kind}`];
  if (!schema) return [`no schema of ${resource.apiVersion} ${resource.kind}`];
  const { validate } = await import(schema);
  const unread = new Set();
  const isValid = validate(watched(resource, '', unread));
  const errors = isValid
    ? []
    : validate.errors.map((e) => `${e.instancePath} ${e.keyword} ${JSON.stringify(e.params)}`);
  return [...errors, ...[...unread].filter((at) => !unread.has(parentOf(at))).map((at) => `${at} is no known field`)];
}

const labelsMatch = (selector, labels = {}) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

for (const folder of FOLDERS)
  describe(`deploy/kubernetes/${folder}`, () => {
    let all, pods;
    const of = (kind) => all.filter((r) => r.kind === kind);
    const matched = (selector) => pods.filter(({ template }) => labelsMatch(selector, template.metadata.labels));
    before(() => {
      all = kustomize(path.join(KUBERNETES, folder)).resources;
      pods = all.filter((r) => r.spec?.template).map((r) => ({ name: r.metadata.name, template: r.spec.template }));
    });

    it('matches the schemas of Kubernetes, with no unknown field', async () => {
      assert.ok(all.length >= 7);
      for (const resource of all)
        assert.deepEqual(await mistakesIn(resource), [], `${resource.kind} ${resource.metadata.name}`);
    });

    it('is what kubectl makes of it, where there is a kubectl', () => {
      const made = spawnSync('kubectl', ['kustomize', path.join(KUBERNETES, folder)], { encoding: 'utf8' });
      if (made.error || made.status !== 0) return;
      const byName = (list) => Object.fromEntries(list.map((r) => [`${r.kind} ${r.metadata.name}`, r]));
      assert.deepEqual(byName(all), byName(parseYaml(made.stdout)));
    });

    it('has one namespace, and each name once', () => {
      const names = all.map((r) => `${r.kind} ${r.metadata.name}`);
      assert.equal(new Set(names).size, names.length);
      const [{ metadata }] = of('Namespace');
      for (const r of all) if (r.kind !== 'Namespace') assert.equal(r.metadata.namespace, metadata.name, r.kind);
    });

    it('selects pods that exist', () => {
      for (const r of [...of('Deployment'), ...of('DaemonSet')])
        assert.deepEqual(
          matched(r.spec.selector.matchLabels).map((pod) => pod.name),
          [r.metadata.name],
        );
      const [budget] = of('PodDisruptionBudget');
      assert.deepEqual(
        matched(budget.spec.selector.matchLabels).map((pod) => pod.name),
        ['llm-router'],
      );
      const named = (selector) => matched(selector.podSelector.matchLabels).map((pod) => pod.name);
      const policies = of('NetworkPolicy');
      assert.deepEqual(
        policies.map((p) => [p.metadata.name, ...named(p.spec)]),
        [
          ['llm-router-node', 'llm-router-node'],
          ['llm-router', 'llm-router'],
        ],
      );
      for (const { spec } of policies) assert.deepEqual(spec.policyTypes, ['Ingress', 'Egress']);
      const [node, router] = policies.map((p) => p.spec);
      assert.deepEqual(
        node.ingress.flatMap((rule) => rule.from.flatMap(named)),
        ['llm-router'],
      );
      assert.deepEqual(
        node.egress.flatMap((rule) => (rule.to ?? []).flatMap(named)),
        ['llm-router'],
      );
      assert.deepEqual(
        router.egress.flatMap((rule) => (rule.to ?? []).flatMap(named)),
        ['llm-router-node'],
      );
      for (const rule of policies.flatMap((p) => [...p.spec.ingress, ...p.spec.egress])) assert.ok(rule.ports.length);
      for (const service of of('Service'))
        assert.notEqual(service.spec.sessionAffinity, 'ClientIP', 'sessions are shared');
      for (const monitor of of('ServiceMonitor')) {
        const services = of('Service').filter((s) => labelsMatch(monitor.spec.selector.matchLabels, s.metadata.labels));
        assert.equal(services.length, 1);
        for (const { port } of monitor.spec.endpoints) assert.ok(services[0].spec.ports.some((p) => p.name === port));
      }
    });

    it('names ports, volumes, accounts and services that exist', () => {
      const accounts = of('ServiceAccount').map((r) => r.metadata.name);
      for (const { name, template } of pods) {
        const { spec } = template;
        assert.ok(accounts.includes(spec.serviceAccountName), name);
        for (const container of spec.containers) {
          const ports = container.ports.map((port) => port.name);
          for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'])
            assert.ok(ports.includes(container[probe].httpGet.port), `${name} ${probe}`);
          const volumes = spec.volumes.map((volume) => volume.name);
          assert.deepEqual(container.volumeMounts.map((mount) => mount.name).sort(), volumes.sort());
          const { port } = new URL(`http://${container.args.find((arg) => arg.startsWith('--listen=')).slice(9)}`);
          assert.equal(container.ports[0].containerPort, Number(port));
          const defined = container.env.map((entry) => entry.name);
          for (const [, variable] of container.args.join(' ').matchAll(/\$\((\w+)\)/g))
            assert.ok(defined.includes(variable), `${name}: $(${variable})`);
          for (const arg of container.args) {
            const file = arg.match(/^--[a-z-]+-file=(.*)$/)?.[1];
            if (file)
              assert.ok(
                container.volumeMounts.some((m) => file.startsWith(`${m.mountPath}/`)),
                arg,
              );
          }
        }
      }
      for (const service of of('Service')) {
        const [pod] = matched(service.spec.selector);
        for (const { targetPort } of service.spec.ports)
          assert.ok(pod.template.spec.containers.some((c) => c.ports.some((p) => p.name === targetPort)));
      }
      const [node] = of('DaemonSet');
      const joined = new URL(
        node.spec.template.spec.containers[0].args.find((arg) => arg.startsWith('--router=')).slice(9),
      );
      const service = of('Service').find((s) => s.metadata.name === joined.hostname);
      assert.ok(
        service?.spec.ports.some((p) => p.port === Number(joined.port)),
        joined.href,
      );
    });

    it('asks for secrets that the document names, and only those', () => {
      const text = JSON.stringify(all);
      const used = new Set(
        [...text.matchAll(/"(?:secretKeyRef|credentials)":\{[^}]*"name":"([^"]+)"|"secretName":"([^"]+)"/g)].map(
          (m) => m[1] ?? m[2],
        ),
      );
      const document = read('docs/kubernetes.md');
      for (const name of used) assert.match(document, new RegExp(`create secret generic ${name}\\b`));
    });

    it('runs without rights, on a root that cannot be written, and asks the probes that the program has', () => {
      const api = read('docs/openapi.yaml');
      for (const { name, template } of pods) {
        const { spec } = template;
        assert.equal(spec.securityContext.runAsNonRoot, true);
        assert.equal(spec.securityContext.seccompProfile.type, 'RuntimeDefault');
        for (const { securityContext, ...container } of spec.containers) {
          assert.deepEqual(securityContext, {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          });
          assert.match(container.image, /:\d+\.\d+\.\d+$/, 'a version, not "latest"');
          assert.deepEqual(
            ['livenessProbe', 'readinessProbe'].map((probe) => container[probe].httpGet.path),
            ['/livez', '/readyz'],
            name,
          );
          for (const probe of ['/livez', '/readyz']) assert.match(api, new RegExp(`^  ${probe}:`, 'm'));
        }
      }
    });

    it('gives the program commands and flags that it has, and more time than it takes to stop', () => {
      for (const { name, template } of pods)
        for (const { args } of template.spec.containers) {
          assert.deepEqual(wrongWords(args), [], name);
          const [, amount, unit] = args.find((arg) => arg.startsWith('--drain-timeout=')).match(/=(\d+)([sm])$/);
          const drain = Number(amount) * (unit === 'm' ? 60 : 1);
          assert.ok(template.spec.terminationGracePeriodSeconds > drain, name);
        }
    });
  });

describe('deploy/kubernetes', () => {
  it('has no file that no kustomization uses', () => {
    const used = new Set(
      FOLDERS.flatMap((folder) => kustomize(path.join(KUBERNETES, folder)).files.map((f) => path.resolve(f))),
    );
    for (const entry of fs.readdirSync(KUBERNETES, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) assert.ok(used.has(path.join(entry.parentPath, entry.name)), entry.name);
  });

  it('asks for a GPU in base and production, and for none in cpu', () => {
    for (const folder of FOLDERS) {
      const node = kustomize(path.join(KUBERNETES, folder)).resources.find((r) => r.kind === 'DaemonSet');
      const [container] = node.spec.template.spec.containers;
      assert.equal(container.resources.limits?.['nvidia.com/gpu'], folder === 'overlays/cpu' ? undefined : 1);
      assert.equal(container.args.includes('--device=cpu'), folder === 'overlays/cpu');
    }
  });

  it('a mistake in a manifest is found: an unknown field, a wrong type, a missing field', async () => {
    const fresh = () => kustomize(path.join(KUBERNETES, 'base')).resources.find((r) => r.kind === 'Deployment');
    for (const [breakIt, expected] of [
      [(d) => (d.spec.template.spec.containers[0].livenesProbe = {}), /livenesProbe is no known field/],
      [(d) => (d.spec.replicas = 'two'), /replicas type/],
      [(d) => delete d.spec.selector, /required/],
    ]) {
      const deployment = fresh();
      breakIt(deployment);
      assert.match((await mistakesIn(deployment)).join('\n'), expected);
    }
  });
});

describe('the Containerfile', () => {
  const lines = read('Containerfile')
    .split('\n')
    .filter((line) => line && !line.startsWith('#'));
  const stages = [];
  const args = {}; // of the bases, with their defaults
  for (const line of lines) {
    const from = line.match(/^FROM (\S+)(?: AS (\w+))?$/);
    if (from)
      stages.push({ image: from[1].replace(/^\$\{(\w+)\}$/, (_, name) => args[name]), name: from[2], lines: [] });
    else if (stages.length > 0) stages.at(-1).lines.push(line);
    else for (const [, name, value] of line.matchAll(/(\w+)=(\S+)/g)) args[name] = value;
  }
  const last = stages.at(-1);
  const word = (name) =>
    last.lines.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));

  it('ends with a stage that has no shell, runs nothing, and has a user without rights', () => {
    assert.equal(last.image, 'scratch');
    assert.deepEqual(word('RUN'), []);
    assert.deepEqual(word('USER'), ['65532:65532']);
    assert.deepEqual(JSON.parse(word('ENTRYPOINT')[0]), ['/usr/bin/llm-router']);
    assert.deepEqual(JSON.parse(word('VOLUME')[0]), ['/var/lib/llm-router']);
  });

  it('names each base by an argument, so that a build can pin it by digest', () => {
    assert.deepEqual(Object.keys(args), ['DEBIAN', 'DEBIAN_SLIM']);
    for (const name of Object.keys(args)) {
      assert.ok(
        lines.some((line) => line.startsWith(`FROM \${${name}} AS `)),
        name,
      );
      assert.ok(read('docs/containers.md').includes(`--build-arg ${name}=debian@sha256:`), name);
    }
  });

  it('copies from stages that exist, and calls scripts and targets that exist', () => {
    const names = stages.map((stage) => stage.name);
    for (const [, stage] of lines.join('\n').matchAll(/--from=(\w+)/g)) assert.ok(names.includes(stage), stage);
    for (const [, file] of lines.join('\n').matchAll(/\/src\/(tools\/[\w-]+)/g))
      assert.ok(fs.statSync(path.join(ROOT, file)).mode & 0o100);
    assert.match(read('Makefile'), /^deb:/m);
    for (const image of stages.map((stage) => stage.image)) assert.match(image, /^(debian:12(-slim)?|scratch)$/);
    const ignored = read('.containerignore').trim().split('\n');
    for (const needed of ['tools', 'deploy', 'docs', 'src', 'models', 'dashboard'])
      assert.ok(!ignored.includes(needed));
  });

  it('starts a command that the program has, with settings that the program has', () => {
    assert.deepEqual(wrongWords(JSON.parse(word('CMD')[0])), []);
    const settings = execFileSync(BIN, ['debug', 'settings-reference'], { encoding: 'utf8' });
    for (const [, name] of word('ENV')
      .join(' ')
      .matchAll(/\b(LLM_ROUTER_\w+)=/g))
      assert.ok(settings.includes(`\`${name}\``), name);
  });
});

if (LONG)
  it('the file system of the image has no shell, and answers read-only and as its user', async () => {
    assert.equal(process.getuid(), 0, 'another root folder needs the rights of root');
    const prefix = tempDir('prefix'),
      root = path.join(tempDir('image'), 'root');
    execFileSync('cmake', ['--install', BUILD, '--prefix', prefix, '--strip'], { stdio: 'ignore' });
    execFileSync(path.join(ROOT, 'tools/container-root'), [prefix, root]);
    const files = fs.readdirSync(root, { recursive: true });
    assert.deepEqual(
      files.filter((name) => /\/bin\//.test(name)),
      ['usr/bin/llm-router'],
    );
    const { stdout } = await promisify(execFile)(
      'unshare',
      [
        ...['--mount', '--pid', '--net', '--fork', '--kill-child', 'bash', '-ec'],
        `mount --make-rprivate /
        mount --bind "$1" "$1"
        mount -o remount,bind,ro "$1"
        mount -t proc proc "$1/proc"
        mount -t tmpfs -o mode=1777 tmp "$1/tmp"
        mount -t tmpfs -o mode=700,uid=65532,gid=65532 data "$1/var/lib/llm-router"
        mount -t tmpfs dev "$1/dev"
        for name in null urandom; do touch "$1/dev/$name"; mount --bind /dev/$name "$1/dev/$name"; done
        ip link set lo up
        export LLM_ROUTER_DATA_DIR=/var/lib/llm-router
        ! touch "$1/written" 2> /dev/null
        chroot --userspec=65532:65532 --groups= "$1" /usr/bin/llm-router up --device cpu > "$1/tmp/image.log" 2>&1 &
        for i in $(seq 600); do
          chroot --userspec=65532:65532 --groups= "$1" /usr/bin/llm-router chat --model demo 'What is the capital of Japan?' 2> /dev/null && exit 0
          sleep 0.1
        done
        cat "$1/tmp/image.log"; exit 1`,
        'bash',
        root,
      ],
      { timeout: 120000, env: { PATH: process.env.PATH } },
    );
    assert.match(stdout, /Tokyo/);
  });

describe('the systemd units', () => {
  it('give the program commands and flags that it has', () => {
    for (const name of fs.readdirSync(path.join(ROOT, 'deploy/systemd')))
      if (name.endsWith('.service'))
        assert.deepEqual(wrongWords(unitFile(name).Service.ExecStart.split(' ').slice(1)), []);
  });

  it('of a socket listen where the program listens by default', () => {
    for (const name of fs.readdirSync(path.join(ROOT, 'deploy/systemd')))
      if (name.endsWith('.socket')) assert.equal(unitFile(name).Socket.ListenStream, '127.0.0.1:11680');
  });
});
