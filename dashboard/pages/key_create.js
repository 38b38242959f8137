// pages/key_create.js - the dialogs that create a key (shown once) and change a key (part of the keys page).
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, segment } from '../lib/api.js';
import { t } from '../lib/i18n.js';
import { useLive } from '../lib/live.js';
import { Button, CopyButton, Dialog, ErrorNote, Field, Note, useOrder } from '../lib/ui.js';

const DAY = 86400;
const lives = { never: 0, day: DAY, week: 7 * DAY, month: 30 * DAY, quarter: 90 * DAY, year: 365 * DAY };
const blank = { name: '', role: 'api', life: 'never', requests: '', tokens: '', month: '', soft: '', models: '' };
const asForm = (key) => ({
  name: key.name,
  life: 'keep',
  requests: key.requests_per_minute ?? '',
  tokens: key.tokens_per_minute ?? '',
  month: key.tokens_per_month ?? '',
  soft: key.tokens_per_month_soft ?? '',
  models: (key.models ?? []).join(', '),
});
const toModels = (text) => text.split(/[\s,]+/).filter(Boolean);
// What the API takes; an expiry that stays is not said.
const asBody = (form) => ({
  name: form.name.trim(),
  requests_per_minute: Number(form.requests),
  tokens_per_minute: Number(form.tokens),
  tokens_per_month: Number(form.month),
  tokens_per_month_soft: Number(form.soft),
  models: toModels(form.models),
  ...(form.life === 'keep' ? {} : { expires_in: lives[form.life] }),
});

/** Names that no registered model has, as far as the models are known. */
function useUnknownModels(text) {
  const { items, isLoaded, error } = useLive('models');
  if (!isLoaded || error) return [];
  const known = new Set(items.flatMap((m) => [m.id, ...(m.aliases ?? [])]).map((id) => id.toLowerCase()));
  return toModels(text).filter((id) => !known.has(id.toLowerCase()));
}

function Form({ form, onChange, onSubmit }) {
  const unknown = useUnknownModels(form.models);
  const choices = form.role === undefined ? ['keep', ...Object.keys(lives)] : Object.keys(lives);
  const set = (name) => (event) => onChange({ ...form, [name]: event.currentTarget.value });
  return html`<form id="key-form" class="stack" onSubmit=${onSubmit}>
    <${Field} label=${t('keys.name')} hint=${t('keys.nameHint')}>${(props) => html`<input autofocus maxlength="63" autocomplete="off" ...${props} value=${form.name} onInput=${set('name')} />`}<//>
    ${
      form.role &&
      html`<fieldset class="roles"><legend class="legend">${t('keys.role')}</legend>${[
        'api',
        'admin',
        'viewer',
        'node',
        'metrics',
      ].map(
        (role) => html`
      <label class="check" key=${role}><input type="radio" name="role" value=${role} checked=${form.role === role} onChange=${() => onChange({ ...form, role, life: role === 'node' && form.life === 'never' ? 'day' : form.life })} /><span><b>${role}</b><br /><span class="small muted">${t(`keys.role_${role}`)}</span></span></label>`,
      )}</fieldset>`
    }
    <${Field} label=${t('keys.life')}>${(props) => html`<select ...${props} value=${form.life} onChange=${set('life')}>${choices.map((name) => html`<option value=${name}>${t(`keys.life_${name}`)}</option>`)}</select>`}<//>
    <div class="pairs"><${Field} label=${t('keys.requestsPerMinute')}>${(props) => html`<input type="number" min="0" max="1000000000" step="1" placeholder=${t('keys.noLimit')} ...${props} value=${form.requests} onInput=${set('requests')} />`}<//>
      <${Field} label=${t('keys.tokensPerMinute')}>${(props) => html`<input type="number" min="0" max="1000000000" step="1" placeholder=${t('keys.noLimit')} ...${props} value=${form.tokens} onInput=${set('tokens')} />`}<//></div>
    <div class="pairs"><${Field} label=${t('keys.tokensPerMonth')} hint=${t('keys.tokensPerMonthHint')}>${(props) => html`<input type="number" min="0" step="1" placeholder=${t('keys.noLimit')} ...${props} value=${form.month} onInput=${set('month')} />`}<//>
      <${Field} label=${t('keys.tokensPerMonthSoft')} hint=${t('keys.tokensPerMonthSoftHint')}>${(props) => html`<input type="number" min="0" step="1" placeholder=${t('keys.noWarning')} ...${props} value=${form.soft} onInput=${set('soft')} />`}<//></div>
    <${Field} label=${t('keys.models')} hint=${t('keys.modelsHint')}>${(props) => html`<input autocomplete="off" spellcheck=${false} placeholder=${t('keys.allModels')} ...${props} value=${form.models} onInput=${set('models')} />`}<//>
    ${unknown.length > 0 && html`<${Note} tone="warn"><p role="status">${t('keys.unknownModels', { count: unknown.length, models: unknown.join(', ') })}</p><//>`}</form>`;
}

function Shown({ made }) {
  const input = useRef(null);
  useEffect(() => {
    input.current.focus();
    input.current.select();
  }, []);
  return html`<${Note} tone="warn">${t('keys.shownOnce')}<//>
    <div class="made-key"><${Field} label=${t('keys.newKey', { name: made.name || made.id })}>${(props) => html`<input ref=${input} readonly class="mono" ...${props} value=${made.key} onFocus=${(e) => e.currentTarget.select()} />`}<//>
      <${CopyButton} text=${made.key} /></div>`;
}

/** @param {{open: boolean, onClose: () => void}} props */
export function CreateKey({ open, onClose }) {
  const [form, setForm] = useState(blank);
  const [made, setMade] = useState(null);
  const { busy, error, run, dismiss } = useOrder();
  const close = () => {
    setMade(null);
    setForm(blank);
    dismiss();
    onClose();
  };
  const submit = async (event) => {
    event.preventDefault();
    const answer = await run('make', () => api.post('/v0/keys', { ...asBody(form), role: form.role }));
    if (answer) setMade(answer);
  };
  const footer = made
    ? html`<${Button} kind="primary" onClick=${close}>${t('keys.stored')}<//>`
    : html`<${Button} onClick=${close}>${t('common.cancel')}<//><${Button} kind="primary" type="submit" form="key-form" busy=${busy === 'make'}>${t('keys.create')}<//>`;
  return html`<${Dialog} open=${open} title=${t('keys.create')} onClose=${close} footer=${footer} sticky=${made !== null}>
    <${ErrorNote} error=${error} onDismiss=${dismiss} />
    ${made ? html`<${Shown} made=${made} />` : html`<${Form} form=${form} onChange=${setForm} onSubmit=${submit} />`}<//>`;
}

/** @param {{item: object, onClose: (isChanged: boolean) => void}} props item: the key */
export function EditKey({ item, onClose }) {
  const [form, setForm] = useState(() => asForm(item));
  const { busy, error, run, dismiss } = useOrder();
  const submit = async (event) => {
    event.preventDefault();
    if (await run('save', () => api.patch(`/v0/keys/${segment(item.id)}`, asBody(form)))) onClose(true);
  };
  const footer = html`<${Button} onClick=${() => onClose(false)}>${t('common.cancel')}<//><${Button} kind="primary" type="submit" form="key-form" busy=${busy === 'save'}>${t('keys.save')}<//>`;
  return html`<${Dialog} open title=${t('keys.editOne', { name: item.name || item.id })} onClose=${() => onClose(false)} footer=${footer}>
    <${ErrorNote} error=${error} onDismiss=${dismiss} /><${Form} form=${form} onChange=${setForm} onSubmit=${submit} /><//>`;
}
