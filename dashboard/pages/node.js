// pages/node.js - one node: its memory, models, engines and log, and the operator's
// actions.  The page asks the node for its details through the router.
import { html } from 'htm/preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, segment } from '../lib/api.js';
import { bytes, clock, dateTime, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live, useLive, useResource } from '../lib/live.js';
import { go, href } from '../lib/route.js';
import { deviceText, isBroken, reasonOf, StateBadge, stateName } from '../lib/states.js';
import { Table } from '../lib/table.js';
import { Badge, Button, confirm, Empty, ErrorNote, Facts, Note, Page, Skeleton, toast, useOrder } from '../lib/ui.js';
import { Gpus } from './gpus.js';
import { Memory } from './memory.js';

const modelColumns = () => [
  {
    id: 'model',
    label: t('nodes.model'),
    sort: (m) => m.id,
    text: (m) => m.id,
    cell: (m) => html`<a class="row-link" href=${href('models', m.id)}>${m.id}</a>`,
  },
  {
    id: 'state',
    label: t('nodes.state'),
    sort: (m) => m.state,
    text: (m) => `${stateName(m.state)} ${reasonOf(m) ?? ''}`,
    cell: (m) => html`<div class="state-cell"><span class="row"><${StateBadge} state=${m.state} />
    ${m.pinned && html`<${Badge}>${t('nodes.kind.pinned')}<//>`}</span>${m.reason && html`<span class="reason">${reasonOf(m)}</span>`}</div>`,
  },
  {
    id: 'engine',
    label: t('nodes.engine'),
    text: (m) => m.engine ?? '',
    cell: (m) =>
      html`<span>${m.engine ?? '–'}</span><span class="row-sub">${m.workers[0] ? `${m.workers[0].version} · ${t('nodes.pid', { pid: m.workers[0].pid })}` : ''}</span>`,
  },
  {
    id: 'need',
    label: t('nodes.need'),
    end: true,
    sort: (m) => m.need?.total ?? 0,
    cell: (m) => (m.need ? bytes(m.need.total) : '–'),
  },
  {
    id: 'live',
    label: t('nodes.live'),
    end: true,
    cell: (m) => (m.workers[0] ? `${number(m.workers[0].live)} / ${number(m.workers[0].slots)}` : '–'),
  },
];

function Models({ models }) {
  const columns = useMemo(modelColumns, []);
  return html`<section class="section"><h2>${t('nodes.models')}</h2><${Table} caption=${t('nodes.models')} rows=${models} rowKey=${(m) => m.id} columns=${columns} rowHref=${(m) => href('models', m.id)} rowClass=${(m) => (isBroken(m.state) ? 'broken' : '')} pageSize=${25}
    filter=${models.length > 8 ? t('models.filter') : undefined} initialSort=${{ id: 'model', down: false }} empty=${html`<p class="card calm">${t('nodes.noModels')}</p>`} /></section>`;
}

function Engines({ id }) {
  const { data, error, reload } = useResource(`/v0/nodes/${segment(id)}/engines`, {
    everyS: 5,
    concerns: (event) => event.node === id && event.event !== 'node.offline',
  });
  const order = useOrder();
  const restart = async (engine) => {
    const answer = await confirm({
      title: t('nodes.reloadTitle', { id: engine.id }),
      text: t('nodes.reloadText'),
      action: t('nodes.reload'),
      choice: t('nodes.reloadForce'),
    });
    if (!answer) return;
    const got = await order.run(engine.id, () =>
      api.post(`/v0/nodes/${segment(id)}/engines/${segment(engine.id)}/reload${answer.choice ? '?force=true' : ''}`),
    );
    if (got) toast(t(got.changed ? 'nodes.reloaded' : 'nodes.unchanged', { id: engine.id }));
    reload();
  };
  const columns = useMemo(
    () => [
      {
        id: 'engine',
        label: t('nodes.engine'),
        cell: (e) => html`<span>${e.id}</span><span class="row-sub">${e.license ?? ''}</span>`,
      },
      {
        id: 'status',
        label: t('nodes.status'),
        cell: (e) =>
          html`<div class="state-cell">${
            e.reloading
              ? html`<${Badge} tone="busy">${t('nodes.reloading')}<//>`
              : e.usable
                ? html`<${Badge} tone="good">${t('nodes.usable')}<//>`
                : html`<${Badge} tone="bad">${t('nodes.refused')}<//>`
          }${e.reason && html`<span class="reason">${e.reason}</span>`}</div>`,
      },
      {
        id: 'version',
        label: t('nodes.version'),
        cell: (e) =>
          e.version
            ? html`<span>${e.version}</span><span class="row-sub"><code title=${e.sha256}>${e.sha256.slice(0, 12)}</code></span>`
            : '–',
      },
      {
        id: 'runs',
        label: t('nodes.runs'),
        cell: (e) =>
          html`<span class="small">${[...(e.architectures ?? []), ...(e.formats ?? []), ...(e.backends ?? [])].join(', ') || '–'}</span>`,
      },
      {
        id: 'actions',
        label: t('nodes.actions'),
        hidden: true,
        end: true,
        cell: (e) =>
          html`<${Button} changes class="small" kind="quiet" icon="reload" label=${`${t('nodes.reload')} ${e.id}`} busy=${order.busy === e.id || e.reloading} onClick=${() => restart(e)}>${t('nodes.reload')}<//>`,
      },
    ],
    [order.busy],
  );
  return html`<section class="section"><h2>${t('nodes.engines')}</h2><${ErrorNote} error=${order.error} onDismiss=${order.dismiss} /><${ErrorNote} error=${error} />
    ${data ? html`<${Table} caption=${t('nodes.engines')} rows=${data.engines ?? []} rowKey=${(e) => e.id} columns=${columns} />` : !error && html`<${Skeleton} />`}</section>`;
}

function Log({ id }) {
  const [lines, setLines] = useState(200);
  const [follow, setFollow] = useState(true);
  const [query, setQuery] = useState('');
  const { data, error } = useResource(`/v0/nodes/${segment(id)}/logs?lines=${lines}`, { everyS: follow ? 2 : 0 });
  const box = useRef(null);
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [data, follow]);
  const wanted = query.toLowerCase();
  const shown = (data?.lines ?? []).filter(
    (l) => !wanted || l.text.toLowerCase().includes(wanted) || l.level === wanted,
  );
  return html`<section class="section"><div class="section-head"><h2>${t('nodes.logs')}</h2><div class="row log-tools">
      <input type="search" aria-label=${t('nodes.logFilter')} placeholder=${t('nodes.logFilter')} value=${query} onInput=${(e) => setQuery(e.currentTarget.value)} />
      <select aria-label=${t('nodes.logLines')} value=${lines} onChange=${(e) => setLines(Number(e.currentTarget.value))}>${[100, 200, 500, 1000].map((n) => html`<option value=${n}>${n}</option>`)}</select>
      <label class="check"><input type="checkbox" checked=${follow} onChange=${(e) => setFollow(e.currentTarget.checked)} /><span>${t('nodes.follow')}</span></label></div></div>
    <${ErrorNote} error=${error} />
    <div class="log card" tabindex="0" role="log" aria-live="off" aria-label=${t('nodes.logs')} ref=${box}>${shown.map((l, i) => html`<div key=${`${l.time}${i}`} class="log-line ${l.level}"><time>${clock(l.time)}</time><span class="level">${l.level}</span><span>${l.text}</span></div>`)}
      ${shown.length === 0 && html`<p class="muted">${query ? t('common.nothingFound') : t('nodes.logEmpty')}</p>`}</div></section>`;
}

function Insides({ id, node }) {
  const { data, error } = useResource(`/v0/nodes/${segment(id)}/models`, {
    everyS: 2,
    concerns: (event) => event.node === id && event.event !== 'node.offline',
  });
  const models = data?.models ?? [];
  const hasGpu = node.memory.some((p) => p.name !== 'ram');
  const gpus = html`<${Gpus} key="gpus" node=${node} />`;
  return html`<${ErrorNote} error=${error} />${hasGpu && gpus}<${Memory} id=${id} models=${models} />${!hasGpu && gpus}${data && html`<${Models} models=${models} />`}<${Engines} id=${id} /><${Log} id=${id} />`;
}

export default function Node({ id, Badge: NodeBadge }) {
  const { items, isLoaded, error } = useLive('nodes');
  const order = useOrder();
  const node = items.find((n) => n.id === id);
  const back = { href: href('nodes'), text: t('nodes.title') };
  if (!node && (!isLoaded || error))
    return html`<${Page} title=${id} back=${back}><${ErrorNote} error=${error} />${!error && html`<${Skeleton} lines=${6} />`}<//>`;
  if (!node)
    return html`<${Page} title=${t('nodes.notFoundTitle')} back=${back}><${Empty} icon="nodes" title=${t('nodes.notFoundTitle')} text=${t('nodes.notFoundText')}><a class="button" href=${href('nodes')}>${t('nodes.toNodes')}</a><//><//>`;
  const change = async (action) => {
    if (
      action === 'drain' &&
      !(await confirm({
        title: t('nodes.drainTitle', { name: node.name }),
        text: t('nodes.drainText'),
        action: t('nodes.drain'),
      }))
    )
      return;
    const got = await order.run(action, () => api.post(`/v0/nodes/${segment(id)}/${action}`));
    if (got) {
      toast(t(action === 'drain' ? 'nodes.isDrained' : 'nodes.isUndrained', { name: node.name }));
      live.refresh('nodes');
    }
  };
  const remove = async () => {
    if (
      !(await confirm({
        title: t('nodes.removeTitle', { name: node.name }),
        text: t('nodes.removeText'),
        action: t('nodes.remove'),
        danger: true,
      }))
    )
      return;
    const got = await order.run('remove', () => api.del(`/v0/nodes/${segment(id)}`));
    if (got) {
      toast(t('nodes.removed', { name: node.name }));
      live.refresh('nodes');
      go('nodes');
    }
  };
  const actions = html`<${Button} changes busy=${order.busy === 'drain' || order.busy === 'undrain'} onClick=${() => change(node.drained ? 'undrain' : 'drain')}>${t(node.drained ? 'nodes.undrain' : 'nodes.drain')}<//>
    ${!node.online && html`<${Button} changes icon="trash" busy=${order.busy === 'remove'} onClick=${remove}>${t('nodes.remove')}<//>`}`;
  return html`<${Page} title=${node.name} back=${back} actions=${actions}>
    <${ErrorNote} error=${order.error} onDismiss=${order.dismiss} />
    <section class="card card-pad"><${Facts} items=${[
      [t('nodes.status'), html`<span role="status"><${NodeBadge} node=${node} /></span>`],
      [t('nodes.device'), deviceText(node)],
      [
        t('nodes.requests'),
        html`${number(node.requests)}${node.failures > 0 && html` <span class="muted small">(${t('nodes.failures', { count: node.failures })})</span>`}`,
      ],
      [t('nodes.inFlight'), number(node.inflight)],
      [t('nodes.version'), node.version || '–'],
      [t('nodes.address'), html`<span class="small">${node.url}</span>`],
      [t('nodes.joined'), dateTime(node.joined)],
    ]} /></section>
    ${node.online ? html`<${Insides} id=${id} node=${node} />` : html`<${Note} tone="warn">${t('nodes.offlineNote')}<//>`}<//>`;
}
