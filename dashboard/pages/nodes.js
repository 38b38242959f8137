// pages/nodes.js - every node, and how one joins; one node: pages/node.js.
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { bytes, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useLive } from '../lib/live.js';
import { href } from '../lib/route.js';
import { deviceText } from '../lib/states.js';
import { Table } from '../lib/table.js';
import { Badge, Button, CopyButton, Dialog, Empty, ErrorNote, Meter, Page, Skeleton, useOrder } from '../lib/ui.js';
import Node from './node.js';
import { Topology } from './topology.js';

export function NodeBadge({ node }) {
  if (!node.online) return html`<${Badge} tone="bad">${t('nodes.offline')}<//>`;
  if (node.drained) return html`<${Badge} tone="warn">${t('nodes.drained')}<//>`;
  if (node.draining) return html`<${Badge} tone="warn">${t('nodes.draining')}<//>`;
  return html`<${Badge} tone="good">${t('nodes.online')}<//>`;
}

/** The fullest of a node's memories is the one to look at. */
const fullest = (node) => [...node.memory].sort((a, b) => b.used / b.total - a.used / a.total)[0];

function Memory({ node }) {
  const pool = node.device === 'cpu' ? node.memory[0] : (node.memory.find((p) => p.name !== 'ram') ?? fullest(node));
  if (!pool || !node.online) return '–';
  const share = pool.used / pool.total;
  return html`<div class="memory-cell"><${Meter} value=${pool.used} max=${pool.total} label=${`${t('nodes.memory')} ${node.name}`} tone=${share > 0.9 ? 'bad' : share > 0.8 ? 'warn' : ''} />
    <span class="small muted number">${t('nodes.used', { used: bytes(pool.used), total: bytes(pool.total) })}</span></div>`;
}

const columns = () => [
  {
    id: 'name',
    label: t('nodes.node'),
    sort: (n) => n.name,
    text: (n) => `${n.name} ${n.id}`,
    cell: (n) =>
      html`<a class="row-link" href=${href('nodes', n.id)}>${n.name}</a><span class="row-sub">${n.version}</span>`,
  },
  {
    id: 'status',
    label: t('nodes.status'),
    sort: (n) => Number(n.online) * 2 - Number(n.drained),
    text: (n) => (n.online ? 'online' : 'offline'),
    cell: (n) => html`<${NodeBadge} node=${n} />`,
  },
  { id: 'device', label: t('nodes.device'), text: deviceText, cell: deviceText },
  {
    id: 'memory',
    label: t('nodes.memory'),
    sort: (n) => (fullest(n) ? fullest(n).used / fullest(n).total : 0),
    cell: (n) => html`<${Memory} node=${n} />`,
  },
  {
    id: 'models',
    label: t('nodes.models'),
    sort: (n) => n.models_loaded,
    cell: (n) =>
      html`<span class="small number">${t('nodes.modelsCount', { loaded: number(n.models_loaded), runnable: number(n.models_runnable) })}</span>`,
  },
  { id: 'inflight', label: t('nodes.inFlight'), end: true, sort: (n) => n.inflight, cell: (n) => number(n.inflight) },
];

export function AddNode({ open, onClose }) {
  const [token, setToken] = useState('');
  const order = useOrder();
  const close = () => {
    setToken('');
    order.dismiss();
    onClose();
  };
  const make = async () => {
    const answer = await order.run('token', () => api.post('/v0/nodes/tokens'));
    if (answer) setToken(answer.key);
  };
  const command = `llm-router node --router ${location.origin} --token ${token}`;
  return html`<${Dialog} open=${open} title=${t('nodes.addTitle')} onClose=${close} sticky=${token !== ''}
    footer=${token ? html`<${Button} kind="primary" onClick=${close}>${t('keys.stored')}<//>` : html`<${Button} kind="primary" busy=${order.busy !== ''} onClick=${make}>${t('nodes.addMake')}<//>`}>
    <${ErrorNote} error=${order.error} onDismiss=${order.dismiss} /><p>${t('nodes.addText')}</p>
    ${token && html`<div class="code wrap" role="status"><${CopyButton} text=${command} /><pre tabindex="0" aria-label=${t('nodes.addToken')}>${command}</pre></div>`}<//>`;
}

function List({ route }) {
  const isPicture = route.query.get('view') === 'picture';
  const { items, error, isLoaded } = useLive('nodes');
  const [isOpen, setOpen] = useState(false);
  const shown = useMemo(columns, []);
  const add = html`<${Button} changes kind=${items.length > 0 ? 'plain' : 'primary'} icon="plus" onClick=${() => setOpen(true)}>${t('nodes.add')}<//>`;
  return html`<${Page} title=${t('nodes.title')} lead=${t('nodes.lead')} actions=${items.length > 0 && add}>
    <${ErrorNote} error=${error} />
    ${
      items.length > 0 &&
      html`<nav class="parts" aria-label=${t('nodes.title')}><ul><li><a href="#/nodes" aria-current=${isPicture ? undefined : 'page'}>${t('nodes.asList')}</a></li>
      <li><a href="#/nodes?view=picture" aria-current=${isPicture ? 'page' : undefined}>${t('nodes.asPicture')}</a></li></ul></nav>`
    }
    ${
      isPicture && items.length > 0
        ? html`<${Topology} />`
        : !isLoaded
          ? html`<${Skeleton} lines=${6} />`
          : items.length === 0
            ? !error &&
              html`<${Empty} icon="nodes" title=${t('nodes.emptyTitle')} text=${t('nodes.emptyText')}>${add}<//>`
            : html`<${Table} caption=${t('nodes.title')} rows=${items} rowKey=${(n) => n.id} columns=${shown} rowHref=${(n) => href('nodes', n.id)} rowClass=${(n) => (n.online ? '' : 'broken')}
      filter=${items.length > 8 ? t('nodes.filter') : undefined} initialSort=${{ id: 'name', down: false }} />`
    }
    <${AddNode} open=${isOpen} onClose=${() => setOpen(false)} /><//>`;
}

export default function Nodes({ route }) {
  return route.id
    ? html`<${Node} key=${route.id} id=${route.id} Badge=${NodeBadge} />`
    : html`<${List} route=${route} />`;
}
