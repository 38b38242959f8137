// pages/welcome.js - the first visit: what this fleet has, which models fit, the first model, the first chat.
//
// The page shows itself where no model is registered (app.js) and stays until the operator leaves it.
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { api, segment } from '../lib/api.js';
import { bytes, duration } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live, useLive, useResource } from '../lib/live.js';
import { href } from '../lib/route.js';
import { reasonOf, StateBadge, stateName } from '../lib/states.js';
import { Badge, Button, ErrorNote, Icon, Meter, Page, Skeleton, useOrder } from '../lib/ui.js';
import { Register } from './register.js';

const GIB = 1 << 30;
const SHOWN_NODES = 4;

/** What can be registered with one click.  `need`: weights and room to work (docs/sizing.md). */
const catalog = [
  { id: 'gpt-oss-20b', repo: 'openai/gpt-oss-20b', size: 12.8 * GIB, need: 15 * GIB },
  { id: 'gpt-oss-120b', repo: 'openai/gpt-oss-120b', size: 60.8 * GIB, need: 64 * GIB },
];

/** Where models of this node live: its GPUs, or the machine's memory on a node of the CPU. */
const pools = (node) => {
  const gpus = node.memory.filter((p) => p.name !== 'ram');
  return gpus.length > 0 && node.device !== 'cpu' ? gpus : node.memory.filter((p) => p.name === 'ram');
};

/** The largest memory that one model can have. @returns {{node: any, pool: any}|null} */
export function largest(nodes) {
  let best = null;
  for (const node of nodes.filter((n) => n.online))
    for (const pool of pools(node)) if (!best || pool.total > best.pool.total) best = { node, pool };
  return best;
}

/** Models that lie on nodes and that no client can use yet. */
export function unregistered(nodes, models) {
  const known = new Set(models.map((m) => m.id.toLowerCase()));
  const found = new Map();
  for (const node of nodes.filter((n) => n.online))
    for (const m of node.models ?? [])
      if (m.can_run && !known.has(m.id.toLowerCase()) && !found.has(m.id))
        found.set(m.id, { id: m.id, node: node.name });
  return [...found.values()];
}

function Engines({ node }) {
  const { data } = useResource(node.online ? `/v0/nodes/${segment(node.id)}/engines` : null);
  const usable = (data?.engines ?? []).filter((e) => e.usable);
  return html`<span>${data ? usable.map((e) => e.id).join(', ') || t('welcome.noEngine') : '…'}</span>`;
}

function Machine({ node }) {
  const gpus = node.memory.filter((p) => p.name !== 'ram');
  return html`<li class="machine"><div class="machine-head"><${Icon} name="nodes" /><a class="row-link" href=${href('nodes', node.id)}>${node.name}</a>
      <${Badge} tone=${node.online ? 'good' : 'bad'}>${t(node.online ? 'welcome.online' : 'welcome.offline')}<//></div>
    <dl class="machine-facts"><dt>${t('welcome.gpu')}</dt><dd>${gpus.length > 0 ? gpus.map((p) => `${p.title} · ${bytes(p.total)}`).join(', ') : t('welcome.noGpu')}</dd>
      ${node.memory.filter((p) => p.name === 'ram').map((p) => html`<dt>${t('welcome.memory')}</dt><dd>${t('welcome.free', { free: bytes(p.total - p.used), total: bytes(p.total) })}</dd>`)}
      <dt>${t('welcome.engines')}</dt><dd><${Engines} node=${node} /></dd></dl></li>`;
}

function Machines({ nodes }) {
  if (!nodes.isLoaded) return html`<${Skeleton} lines=${3} />`;
  if (nodes.error) return html`<${ErrorNote} error=${nodes.error} />`;
  if (nodes.items.length === 0)
    return html`<p class="muted">${t('welcome.noNode')}</p><div><a class="button primary" href=${href('nodes')}>${t('welcome.addNode')}</a></div>`;
  const rest = nodes.items.length - SHOWN_NODES;
  return html`<ul class="machines">${nodes.items.slice(0, SHOWN_NODES).map((n) => html`<${Machine} key=${n.id} node=${n} />`)}</ul>
    ${rest > 0 && html`<p class="small muted">${t('welcome.moreNodes', { count: rest })}</p>`}`;
}

/** Whether it fits, in words. */
function Fit({ need, best }) {
  if (!best) return null;
  const fits = best.pool.total >= need;
  return html`<p class="fit ${fits ? 'good' : 'warn'}"><${Icon} name=${fits ? 'check' : 'alert'} /><span>${
    fits
      ? t('welcome.fits', { node: best.node.name, pool: best.pool.title, total: bytes(best.pool.total) })
      : t('welcome.fitsNot', { need: bytes(need), total: bytes(best.pool.total) })
  }</span></p>`;
}

function Offers({ nodes, models, order, onTake, onOther }) {
  const best = largest(nodes);
  const local = unregistered(nodes, models);
  return html`<ul class="offers">${local.map(
    (
      one,
    ) => html`<li class="offer" key=${one.id}><div><h3 class="break">${one.id}</h3><p class="small muted">${t('welcome.onNode', { node: one.node })}</p></div>
      <${Button} changes kind=${one === local[0] && !best ? 'primary' : 'plain'} busy=${order.busy === one.id} label=${t('welcome.registerOne', { id: one.id })} onClick=${() => onTake(one.id, { path: one.id })}>${t('welcome.register')}<//></li>`,
  )}${catalog.map(
    (
      { id, repo, size, need },
      i,
    ) => html`<li class="offer" key=${id}><div><h3>${id}</h3><p class="small muted">${t(`welcome.about.${id}`, { size: bytes(size) })}</p><${Fit} need=${need} best=${best} /></div>
      <${Button} changes kind=${i === 0 && best && best.pool.total >= need ? 'primary' : 'plain'} busy=${order.busy === id} disabled=${nodes.length === 0} label=${t('welcome.registerOne', { id })} onClick=${() => onTake(id, { repo })}>${t('welcome.register')}<//></li>`,
  )}</ul><div class="offer-other"><${Button} changes kind="quiet" icon="plus" onClick=${onOther}>${t('welcome.other')}<//></div>`;
}

/** From the registration to a model that answers. */
function Progress({ model, downloads }) {
  const mine = [...downloads.values()].filter((d) => d.model === model.id);
  const done = mine.reduce((sum, d) => sum + d.done_bytes, 0);
  const total = mine.reduce((sum, d) => sum + d.total_bytes, 0);
  const rate = mine.reduce((sum, d) => sum + d.rate, 0);
  const left = mine.map((d) => d.remaining_ms).filter((ms) => ms !== undefined);
  const facts = [
    total > 0 && t('welcome.progress', { done: bytes(done), total: bytes(total) }),
    rate > 0 && t('welcome.rate', { rate: bytes(rate) }),
    left.length > 0 && t('welcome.left', { time: duration(Math.max(...left)) }),
  ].filter(Boolean);
  return html`<div class="first-model"><p class="row"><a class="row-link" href=${href('models', model.id)}>${model.id}</a><${StateBadge} state=${model.state} /></p>
    ${total > 0 && html`<${Meter} value=${done} max=${total} label=${stateName('fetching')} tone="busy" />`}
    ${facts.length > 0 && html`<p class="small muted number">${facts.join(' · ')}</p>`}
    ${total === 0 && model.reason && html`<p class="reason">${reasonOf(model)}</p>`}</div>`;
}

const canChat = (m) => m.ready || m.state === 'present' || m.state === 'loading' || m.state === 'starting';

const Step = ({ number, title, isDone, children }) =>
  html`<section class="card first-step ${isDone ? 'done' : ''}"><h2><span class="first-number" aria-hidden="true">${isDone ? html`<${Icon} name="check" />` : number}</span>${title}</h2><div class="first-body">${children}</div></section>`;

export default function Welcome() {
  const nodes = useLive('nodes');
  const models = useLive('models');
  const downloads = useLive('downloads');
  const order = useOrder();
  const [isOpen, setOpen] = useState(false);
  const take = async (id, body) => {
    if (await order.run(id, () => api.post('/v0/models/register', body))) live.refresh('models');
  };
  const skip = () => {
    try {
      sessionStorage.setItem('lr.welcomed', '1');
    } catch {
      /* storage is off: the page comes again */
    }
  };
  const chosen = models.items.find(canChat) ?? models.items[0];
  // The list of the fleet leaves the models of a node out (brief); this page names them.
  const { data } = useResource('/v0/nodes', { everyS: 5, concerns: ({ event }) => event.startsWith('node.') });
  const detailed = data?.nodes ?? [];
  return html`<${Page} title=${t('welcome.title')} lead=${t('welcome.lead')} actions=${html`<a class="button quiet" href=${href('overview')} onClick=${skip}>${t('welcome.skip')}</a>`}>
    <${ErrorNote} error=${order.error} onDismiss=${order.dismiss} />
    <div class="first-steps"><${Step} number="1" title=${t('welcome.machines')} isDone=${nodes.items.some((n) => n.online)}><${Machines} nodes=${nodes} /><//>
    <${Step} number="2" title=${t('welcome.model')} isDone=${Boolean(chosen && canChat(chosen))}>
      ${models.items.map((m) => html`<${Progress} key=${m.id} model=${m} downloads=${downloads} />`)}
      ${models.isLoaded && !models.error && models.items.length === 0 && html`<${Offers} nodes=${detailed} models=${models.items} order=${order} onTake=${take} onOther=${() => setOpen(true)} />`}
      <${ErrorNote} error=${models.error} /><//>
    <${Step} number="3" title=${t('welcome.chat')}>
      <p class="muted">${chosen && canChat(chosen) ? t('welcome.chatReady', { id: chosen.id }) : t('welcome.chatLater')}</p>
      <div>${
        chosen && canChat(chosen)
          ? html`<a class="button primary" href=${href('playground', chosen.id)}>${t('welcome.chatStart')}</a>`
          : html`<${Button} disabled=${true}>${t('welcome.chatStart')}<//>`
      }</div><//></div>
    <${Register} open=${isOpen} onClose=${() => setOpen(false)} /><//>`;
}
