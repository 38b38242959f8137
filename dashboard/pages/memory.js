// pages/memory.js - a node's memory as a picture: which model uses how much, and which models would
// be evicted to load another model.  The table below each picture has the same facts as text.
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { bytes, duration, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { segment } from '../lib/api.js';
import { Table } from '../lib/table.js';
import { Badge, ErrorNote, Note, Skeleton } from '../lib/ui.js';

const HUES = 6;
const rank = { pinned: 0, busy: 1, idle: 2 };

/** Those that stay first, then the last to go: the end of the row is what goes first. */
const inOrder = (claims) => [...claims].sort((a, b) => rank[a.kind] - rank[b.kind] || a.idle_ms - b.idle_ms);

/** How many idle claims would go before this one; -1: it stays. */
const goesAfter = (claims, claim) =>
  claim.kind === 'idle' ? claims.filter((c) => c.kind === 'idle' && c.idle_ms > claim.idle_ms).length : -1;

function Part({ size, total, kind, title, hue, isVictim, children }) {
  if (!(size > 0)) return null;
  return html`<span class="part ${kind} ${isVictim ? 'victim' : ''}" data-hue=${hue} title=${title} style=${{ flexGrow: size / total, flexBasis: 0 }}>${children}</span>`;
}

/** Inside a claim: what is in use stands out from what is only reserved. */
function Inside({ claim }) {
  const used = Math.min(claim.reserved, claim.weights + claim.kv_in_use + claim.workspace + claim.fixed);
  const share = (value) => ({ width: `${(100 * value) / claim.reserved}%` });
  return html`<span class="fill weights" style=${share(Math.min(claim.weights, claim.reserved))}></span><span class="fill kv" style=${share(used - Math.min(claim.weights, used))}></span>
    <span class="part-label">${claim.model}</span>`;
}

function Picture({ pool, claims, victims }) {
  const kept = pool.total - (pool.total * pool.limit_percent) / 100;
  const foreign = Math.min(pool.foreign, pool.total);
  const parts = [
    ...claims.map((c) => `${c.model} ${bytes(c.reserved)}`),
    `${t('nodes.free')} ${bytes(pool.free)}`,
    `${t('nodes.foreign')} ${bytes(foreign)}`,
  ];
  return html`<div class="memory-bar" role="img" aria-label=${t('nodes.memoryText', { title: pool.title, parts: parts.join(', ') })}>
    ${claims.map(
      (
        c,
        i,
      ) => html`<${Part} key=${`${c.pid}`} size=${c.reserved} total=${pool.total} kind="claim" hue=${i % HUES} isVictim=${victims.includes(c.model)}
      title=${`${c.model}: ${t('nodes.reserved', { size: bytes(c.reserved) })}`}><${Inside} claim=${c} /><//>`,
    )}
    <${Part} size=${pool.free} total=${pool.total} kind="free" title=${`${t('nodes.free')}: ${bytes(pool.free)}`} />
    <${Part} size=${foreign} total=${pool.total} kind="foreign" title=${`${t('nodes.foreign')}: ${bytes(foreign)}`} />
    <${Part} size=${kept} total=${pool.total} kind="kept" title=${`${t('nodes.kept', { percent: pool.limit_percent })}: ${bytes(kept)}`} /></div>
    <ul class="memory-legend" aria-hidden="true"><li><i class="swatch free"></i>${t('nodes.free')} ${bytes(pool.free)}</li><li><i class="swatch foreign"></i>${t('nodes.foreign')} ${bytes(foreign)}</li>
      <li><i class="swatch kept"></i>${t('nodes.kept', { percent: pool.limit_percent })}</li></ul>`;
}

function eviction(claims, claim) {
  const after = goesAfter(claims, claim);
  if (after < 0) return t(`nodes.evict.${claim.kind}`);
  return after === 0 ? t('nodes.evict.first') : t('nodes.evict.later', { count: number(after) });
}

const claimColumns = (claims) => [
  {
    id: 'model',
    label: t('nodes.holder'),
    cell: (c) =>
      html`<span class="holder"><i class="swatch claim" data-hue=${claims.indexOf(c) % HUES}></i>${c.model}</span>`,
  },
  {
    id: 'kind',
    label: t('nodes.kind'),
    cell: (c) =>
      html`<${Badge} tone=${c.kind === 'busy' ? 'busy' : 'plain'}>${t(`nodes.kind.${c.kind}`)}<//>${c.kind === 'idle' && html`<span class="row-sub">${t('nodes.lastUsed', { time: duration(c.idle_ms) })}</span>`}`,
  },
  { id: 'evict', label: t('nodes.eviction'), cell: (c) => html`<span class="small">${eviction(claims, c)}</span>` },
  { id: 'weights', label: t('nodes.weights'), end: true, cell: (c) => bytes(c.weights) },
  {
    id: 'kv',
    label: t('nodes.kv'),
    end: true,
    cell: (c) => t('nodes.kvOf', { used: bytes(c.kv_in_use), total: bytes(c.kv) }),
  },
  { id: 'measured', label: t('nodes.measured'), end: true, cell: (c) => bytes(c.measured) },
  { id: 'reserved', label: t('nodes.reservedLabel'), end: true, cell: (c) => bytes(c.reserved) },
];

function Pool({ pool, victims }) {
  const claims = inOrder(pool.claims);
  return html`<div class="card card-pad pool"><div class="section-head"><h3>${pool.title}</h3><span class="small muted number">${t('nodes.used', { used: bytes(pool.used), total: bytes(pool.total) })}</span></div>
    ${pool.over && html`<${Note} tone="warn">${t('nodes.over', { percent: pool.limit_percent })}<//>`}
    <${Picture} pool=${pool} claims=${claims} victims=${victims} />
    ${claims.length > 0 ? html`<${Table} caption=${pool.title} rows=${claims} rowKey=${(c) => c.pid} columns=${claimColumns(claims)} pageSize=${12} />` : html`<p class="muted small">${t('nodes.nobody')}</p>`}</div>`;
}

function planText(plan) {
  const known = ['fits', 'reclaim', 'evict', 'wait', 'never', 'loaded'].includes(plan.plan) ? plan.plan : 'unknown';
  return t(`nodes.plan.${known}`, {
    model: plan.model,
    need: bytes(plan.need),
    available: bytes(plan.available),
    evicts: (plan.evicts ?? []).join(', '),
  });
}

/** @param {{id: string, models: {id: string, state: string}[]}} props of this node */
export function Memory({ id, models }) {
  const [asked, setAsked] = useState('');
  const path = `/v0/nodes/${segment(id)}/memory${asked ? `?model=${encodeURIComponent(asked)}` : ''}`;
  const { data, error } = useResource(path, {
    everyS: 2,
    concerns: (event) => event.node === id && event.event !== 'node.offline',
  });
  const could = models.filter((m) => m.state === 'present');
  const plan = data?.load;
  return html`<section class="section"><div class="section-head"><h2>${t('nodes.memory')}</h2>
      ${
        could.length > 0 &&
        html`<label class="what-if"><span>${t('nodes.whatIf')}</span><select value=${asked} onChange=${(e) => setAsked(e.currentTarget.value)}>
        <option value="">${t('nodes.choose')}</option>${could.map((m) => html`<option value=${m.id}>${m.id}</option>`)}</select></label>`
      }</div>
    <div role="status">${plan && html`<${Note} tone=${plan.plan === 'never' ? 'bad' : ['fits', 'reclaim'].includes(plan.plan) ? 'good' : 'warn'} icon=${['fits', 'reclaim'].includes(plan.plan) ? 'check' : 'alert'}>${planText(plan)}<//>`}</div>
    <${ErrorNote} error=${error} />${!data && !error && html`<${Skeleton} />`}
    ${data?.pools.map((pool) => html`<${Pool} key=${pool.pool} pool=${pool} victims=${plan?.evicts ?? []} />`)}</section>`;
}
