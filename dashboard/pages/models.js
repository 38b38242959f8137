// pages/models.js - every registered model; one model: pages/model.js.
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { api, segment } from '../lib/api.js';
import { bytes, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live, useLive } from '../lib/live.js';
import { mayChange } from '../lib/me.js';
import { href } from '../lib/route.js';
import { isBroken, reasonOf, StateBadge, stateName } from '../lib/states.js';
import { Table } from '../lib/table.js';
import { Button, Empty, ErrorNote, Meter, Page, Skeleton, toast, useOrder } from '../lib/ui.js';
import Model from './model.js';
import { Register } from './register.js';

const order = [
  'ready',
  'loading',
  'starting',
  'fetching',
  'verifying',
  'draining',
  'present',
  'waiting',
  'failed',
  'absent',
];

const source = (m) => t(m.source === 'hub' ? 'models.fromHub' : 'models.fromNode');

/** Bytes of all nodes together, for one line in the list. */
function fetching(downloads, id) {
  let done = 0;
  let total = 0;
  for (const d of downloads.values())
    if (d.model === id) {
      done += d.done_bytes;
      total += d.total_bytes;
    }
  return total > 0 ? { done, total } : null;
}

/** What the filter offers: the states as the overview counts them. */
const kinds = {
  loaded: (m) => m.state === 'ready',
  disk: (m) => m.ready && m.state !== 'ready',
  failed: (m) => !m.ready && isBroken(m.state),
  absent: (m) => !m.ready && m.state === 'absent',
};

function columns(downloads, busy, loadAgain) {
  return [
    {
      id: 'model',
      label: t('models.model'),
      sort: (m) => m.id,
      text: (m) => m.id,
      cell: (m) =>
        html`<a class="row-link" href=${href('models', m.id)}>${m.id}</a><span class="row-sub">${[m.format, source(m)].filter(Boolean).join(' · ')}</span>`,
    },
    {
      id: 'state',
      label: t('models.stateLabel'),
      sort: (m) => order.indexOf(m.state),
      text: (m) => `${stateName(m.state)} ${m.state} ${m.reason ?? ''} ${reasonOf(m)}`,
      cell: (m) => {
        const download = fetching(downloads, m.id);
        return html`<div class="state-cell"><${StateBadge} state=${m.state} />${
          download
            ? html`<${Meter} value=${download.done} max=${download.total} label=${t('models.state.fetching')} tone="busy" />`
            : m.reason && html`<span class="reason">${reasonOf(m)}</span>`
        }</div>`;
      },
    },
    {
      id: 'where',
      label: t('models.where'),
      cell: (m) =>
        html`<span class="small">${order
          .filter((s) => m.states[s])
          .map(
            (s, i) =>
              html`${i > 0 ? ', ' : ''}<span class=${isBroken(s) ? 'bad-text' : ''}>${`${number(m.states[s])} ${stateName(s)}`}</span>`,
          )}${Object.keys(m.states).length === 0 ? '–' : ''}</span>`,
    },
    {
      id: 'load',
      label: t('models.loadLabel'),
      sort: (m) => m.inflight + m.queued,
      cell: (m) =>
        html`<span class="small number">${[m.inflight && t('models.inFlight', { count: number(m.inflight) }), m.queued && t('models.queued', { count: number(m.queued) })].filter(Boolean).join(', ') || t('models.idle')}</span>`,
    },
    {
      id: 'size',
      label: t('models.size'),
      end: true,
      sort: (m) => m.weight_bytes,
      cell: (m) => (m.weight_bytes ? bytes(m.weight_bytes) : '–'),
    },
    {
      id: 'actions',
      label: t('models.actions'),
      hidden: true,
      end: true,
      cell: (m) =>
        isBroken(m.state) &&
        !m.ready &&
        html`<${Button} changes class="small" icon="reload" busy=${busy === m.id} label=${t('models.againOne', { id: m.id })} onClick=${() => loadAgain(m)}>${t('models.again')}<//>`,
    },
  ];
}

function List({ route }) {
  const { items, error, isLoaded } = useLive('models');
  const downloads = useLive('downloads');
  const [isOpen, setOpen] = useState(mayChange() && route.query.has('register'));
  const orders = useOrder();
  const loadAgain = async (m) => {
    if (await orders.run(m.id, () => api.post(`/v0/models/${segment(m.id)}/load`)))
      toast(t('models.done.again', { id: m.id }));
    live.refresh('models');
  };
  const shown = useMemo(() => columns(downloads, orders.busy, loadAgain), [downloads, orders.busy]);
  const kind = kinds[route.query.get('state')] ? route.query.get('state') : '';
  const rows = useMemo(() => (kind ? items.filter(kinds[kind]) : items), [items, kind]);
  const states = html`<label class="inline"><span class="visually-hidden">${t('models.stateLabel')}</span><select value=${kind} onChange=${(
    e,
  ) => {
    location.hash = e.currentTarget.value ? `#/models?state=${e.currentTarget.value}` : '#/models';
  }}><option value="">${t('models.kind_all')}</option>${Object.keys(kinds).map((name) => html`<option value=${name}>${t(`models.kind_${name}`)} (${number(items.filter(kinds[name]).length)})</option>`)}</select></label>`;
  const open = html`<${Button} changes kind="primary" icon="plus" onClick=${() => setOpen(true)}>${t('models.register')}<//>`;
  return html`<${Page} title=${t('models.title')} lead=${t('models.lead')} actions=${items.length > 0 && open}>
    <${ErrorNote} error=${error} /><${ErrorNote} error=${orders.error} onDismiss=${orders.dismiss} />
    ${
      !isLoaded
        ? html`<${Skeleton} lines=${6} />`
        : items.length === 0
          ? !error &&
            html`<${Empty} icon="models" title=${t('models.emptyTitle')} text=${t('models.emptyText')}>${open}<//>`
          : html`<${Table} caption=${t('models.title')} rows=${rows} rowKey=${(m) => m.id} columns=${shown} rowHref=${(m) => href('models', m.id)} rowClass=${(m) => (isBroken(m.state) && !m.ready ? 'broken' : '')}
      filter=${items.length > 8 ? t('models.filter') : undefined} actions=${(items.length > 8 || kind) && states} initialSort=${{ id: 'model', down: false }} />`
    }
    <${Register} open=${isOpen} onClose=${() => setOpen(false)} /><//>`;
}

export default function Models({ route }) {
  return route.id ? html`<${Model} key=${route.id} id=${route.id} />` : html`<${List} route=${route} />`;
}
