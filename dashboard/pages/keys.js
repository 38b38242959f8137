// pages/keys.js - keys of people and programs, join tokens, usage and the audit log, each on a page of its own.
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { api, segment } from '../lib/api.js';
import { ago, bytes, dateTime, duration, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { href } from '../lib/route.js';
import { Table } from '../lib/table.js';
import { Badge, Button, confirm, Empty, ErrorNote, Page, Skeleton, toast, useOrder } from '../lib/ui.js';
import { Audit } from './audit.js';
import { CreateKey, EditKey, RotateKey } from './key_create.js';
import { Budget } from './self.js';
import { AddNode } from './nodes.js';
import { Usage } from './usage.js';

const isExpired = (key) => key.expires !== undefined && key.expires * 1000 <= Date.now();
const isOver = (key) => key.revoked !== undefined || isExpired(key);

function State({ item }) {
  if (item.revoked !== undefined) return html`<${Badge} tone="bad">${t('keys.revoked')}<//>`;
  if (isExpired(item)) return html`<${Badge} tone="warn">${t('keys.expired')}<//>`;
  return html`<${Badge} tone="good">${t('keys.active')}<//>${item.old_secret_until * 1000 > Date.now() && html`<span class="row-sub">${t('keys.oldSecretEnds', { time: ago(item.old_secret_until) })}</span>`}`;
}

function limits(key) {
  const texts = [
    key.requests_per_minute && t('keys.requestsLimit', { count: number(key.requests_per_minute) }),
    key.tokens_per_minute && t('keys.tokensLimit', { count: number(key.tokens_per_minute) }),
    key.concurrent_requests && t('keys.togetherLimit', { count: number(key.concurrent_requests) }),
    key.request_bytes && t('keys.bytesLimit', { size: bytes(key.request_bytes) }),
    key.addresses && t('keys.addressesLimit', { addresses: key.addresses.join(', ') }),
    key.models && t('keys.modelsLimit', { models: key.models.join(', ') }),
  ].filter(Boolean);
  const budget =
    key.tokens_per_month > 0 &&
    html`<${Budget} used=${key.month_tokens ?? 0} limit=${key.tokens_per_month} soft=${key.tokens_per_month_soft} label=${`${t('self.month')} ${key.name || key.id}`} />`;
  return texts.length || budget
    ? html`${texts.join(', ')}${budget}`
    : html`<span class="muted">${t('keys.noLimit')}</span>`;
}

const when = (time) =>
  time === undefined
    ? html`<span class="muted">${t('keys.never')}</span>`
    : html`<time datetime=${new Date(time * 1000).toISOString()} title=${dateTime(time)}>${ago(time)}</time>`;

/** Says how long the router stores the prompts and answers of these keys, and how much of them. */
const storedText = ({ keep_s, max_bytes }) =>
  keep_s && max_bytes
    ? t('keys.storedResponses', { time: duration(keep_s * 1000), size: bytes(max_bytes) })
    : t('keys.noStoredResponses');

function KeyTable({ keys, me, onEdit, onRotate, onRevoke, isShowingOver, onShowOver }) {
  const over = keys.filter(isOver).length;
  const rows = isShowingOver ? keys : keys.filter((k) => !isOver(k));
  const columns = [
    {
      id: 'name',
      label: t('keys.name'),
      text: (k) => `${k.name} ${k.id} ${k.owner ?? ''} ${k.label ?? ''}`,
      sort: (k) => k.name.toLowerCase(),
      cell: (k) =>
        html`<span class="break">${k.name || html`<span class="muted">${t('keys.unnamed')}</span>`}</span><br /><code class="key-id">${k.id}</code>${(k.owner || k.label) && html`<span class="row-sub break">${[k.owner, k.label].filter(Boolean).join(' · ')}</span>`}${k.keep_texts && html`<span class="row-sub"><${Badge} tone="warn">${t('keys.textsKept')}<//></span>`}`,
    },
    {
      id: 'role',
      label: t('keys.role'),
      text: (k) => k.role,
      sort: (k) => k.role,
      cell: (k) => html`<${Badge}>${k.role}<//>`,
    },
    {
      id: 'state',
      label: t('keys.state'),
      sort: (k) => (k.revoked ? 2 : isExpired(k) ? 1 : 0),
      cell: (k) => html`<${State} item=${k} />`,
    },
    { id: 'limits', label: t('keys.limits'), cell: limits },
    { id: 'expires', label: t('keys.expires'), sort: (k) => k.expires ?? Infinity, cell: (k) => when(k.expires) },
    { id: 'used', label: t('keys.lastUsed'), sort: (k) => -(k.last_used ?? 0), cell: (k) => when(k.last_used) },
    {
      id: 'actions',
      label: t('keys.actions'),
      hidden: true,
      end: true,
      cell: (k) =>
        k.revoked === undefined &&
        html`<span class="row end"><${Button} changes class="small" kind="quiet" label=${t('keys.editOne', { name: k.name || k.id })} onClick=${() => onEdit(k)}>${t('keys.edit')}<//>
      ${
        !isOver(k) &&
        html`<${Button} changes class="small" kind="quiet" label=${t('keys.rotateOne', { name: k.name || k.id })} onClick=${() => onRotate(k)}>${t('keys.rotate')}<//>
      <${Button} changes class="small" label=${t('keys.revokeOne', { name: k.name || k.id })}
      onClick=${() => onRevoke(k)}>${k.id === me.id ? t('keys.revokeOwn') : t('keys.revoke')}<//>`
      }</span>`,
    },
  ];
  const actions =
    over > 0 &&
    html`<label class="check"><input type="checkbox" checked=${isShowingOver} onChange=${(e) => onShowOver(e.currentTarget.checked)} /><span>${t('keys.showOver', { count: over })}</span></label>`;
  const empty =
    over === 0
      ? html`<${Empty} icon="keys" title=${t('keys.emptyTitle')} text=${me.needs_key ? t('keys.emptyText') : t('keys.emptyTextOpen')} />`
      : undefined;
  return html`<${Table} caption=${t('keys.keys')} rows=${rows} rowKey=${(k) => k.id} columns=${columns} filter=${keys.length > 8 ? t('keys.filter') : undefined} actions=${actions} empty=${empty} pageSize=${25} />`;
}

/** Join tokens let machines in as nodes; they are keys of role node. */
function TokenTable({ keys, onRevoke }) {
  const columns = [
    {
      id: 'name',
      label: t('keys.name'),
      text: (k) => `${k.name} ${k.id}`,
      sort: (k) => k.name.toLowerCase(),
      cell: (k) =>
        html`<span class="break">${k.name || html`<span class="muted">${t('keys.unnamed')}</span>`}</span><br /><code class="key-id">${k.id}</code>`,
    },
    {
      id: 'state',
      label: t('keys.state'),
      cell: (k) =>
        k.uses > 0 && k.joins >= k.uses && !isOver(k)
          ? html`<${Badge}>${t('keys.spent')}<//>`
          : html`<${State} item=${k} />`,
    },
    {
      id: 'uses',
      label: t('keys.joins'),
      sort: (k) => k.joins,
      cell: (k) =>
        k.uses > 0
          ? t('keys.joinsOf', { joins: number(k.joins), uses: number(k.uses) })
          : t('keys.joinsAny', { joins: number(k.joins) }),
    },
    { id: 'created', label: t('keys.created'), sort: (k) => -k.created, cell: (k) => when(k.created) },
    { id: 'expires', label: t('keys.expires'), sort: (k) => k.expires ?? Infinity, cell: (k) => when(k.expires) },
    {
      id: 'actions',
      label: t('keys.actions'),
      hidden: true,
      end: true,
      cell: (k) =>
        !isOver(k) &&
        html`<${Button} changes class="small" label=${t('keys.revokeOne', { name: k.name || k.id })} onClick=${() => onRevoke(k)}>${t('keys.revoke')}<//>`,
    },
  ];
  return html`<${Table} caption=${t('keys.tokens')} rows=${keys} rowKey=${(k) => k.id} columns=${columns} filter=${keys.length > 8 ? t('keys.filter') : undefined} pageSize=${25}
    empty=${html`<${Empty} icon="nodes" title=${t('keys.noTokensTitle')} text=${t('keys.noTokensText')} />`} />`;
}

const parts = ['', 'tokens', 'usage', 'audit'];

const Parts = ({ part }) =>
  html`<nav class="parts" aria-label=${t('keys.title')}><ul>${parts.map((name) => html`<li key=${name}><a href=${name ? href('keys', name) : href('keys')} aria-current=${part === name ? 'page' : undefined}>${t(`keys.part_${name || 'keys'}`)}</a></li>`)}</ul></nav>`;

export default function Keys({ me, route }) {
  const part = parts.includes(route.id) ? route.id : '';
  const { data, error, reload } = useResource('/v0/keys', { everyS: 10 });
  const [isCreating, setCreating] = useState(false);
  const [edited, setEdited] = useState(null);
  const [rotated, setRotated] = useState(null);
  const [isShowingOver, setShowingOver] = useState(false);
  const order = useOrder();
  const keys = [...(data?.keys ?? [])].sort((a, b) => Number(isOver(a)) - Number(isOver(b)) || b.created - a.created);
  const people = keys.filter((k) => k.role !== 'node');
  const revoke = async (key) => {
    const answer = await confirm({
      title: t('keys.revokeTitle', { name: key.name || key.id }),
      text: t(
        key.role === 'node' ? 'keys.revokeTokenText' : key.id === me.id ? 'keys.revokeOwnText' : 'keys.revokeText',
      ),
      action: t('keys.revoke'),
      danger: true,
    });
    if (!answer) return;
    if (await order.run(key.id, () => api.del(`/v0/keys/${segment(key.id)}`)))
      toast(t('keys.revokeDone', { name: key.name || key.id }));
    reload();
  };
  const actions =
    part === '' || part === 'tokens'
      ? html`<${Button} changes kind="primary" icon="plus" onClick=${() => setCreating(true)}>${t(part ? 'keys.createToken' : 'keys.create')}<//>`
      : undefined;
  return html`<${Page} title=${t('keys.title')} lead=${t(`keys.lead_${part || 'keys'}`)} actions=${actions}>
    <${Parts} part=${part} />
    <${ErrorNote} error=${order.error ?? error} onDismiss=${order.error ? order.dismiss : undefined} />
    ${!data && !error && html`<${Skeleton} />`}
    ${
      data &&
      part === '' &&
      html`<section class="section">
      <${KeyTable} keys=${people} me=${me} onEdit=${setEdited} onRotate=${setRotated} onRevoke=${revoke} isShowingOver=${isShowingOver} onShowOver=${setShowingOver} />
      ${data.stored_responses && html`<p class="small muted">${storedText(data.stored_responses)}</p>`}</section>`
    }
    ${data && part === 'tokens' && html`<${TokenTable} keys=${keys.filter((k) => k.role === 'node')} onRevoke=${revoke} />`}
    ${part === 'usage' && html`<${Usage} keys=${people} />`}
    ${part === 'audit' && html`<${Audit} keys=${keys} />`}
    ${
      part === 'tokens' &&
      html`<${AddNode} open=${isCreating} onClose=${() => {
        setCreating(false);
        reload();
      }} />`
    }
    ${
      part === '' &&
      html`<${CreateKey} open=${isCreating} onClose=${() => {
        setCreating(false);
        reload();
      }} />`
    }
    ${
      rotated &&
      html`<${RotateKey} key=${rotated.id} item=${rotated} onClose=${() => {
        setRotated(null);
        reload();
      }} />`
    }
    ${
      edited &&
      html`<${EditKey} key=${edited.id} item=${edited} onClose=${(isChanged) => {
        setEdited(null);
        if (isChanged) {
          toast(t('keys.editDone', { name: edited.name || edited.id }));
          reload();
        }
      }} />`
    }<//>`;
}
