// pages/register.js - the dialog that registers a model.  An error stays, with the API's message,
// until it is dismissed; the typed values stay, too.
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { bytes } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live } from '../lib/live.js';
import { go } from '../lib/route.js';
import { Button, Dialog, ErrorNote, Field, Icon, Note, useOrder } from '../lib/ui.js';

const blank = {
  kind: 'repo',
  repo: '',
  path: '',
  format: '',
  revision: '',
  filename: '',
  name: '',
  chat_template: '',
  dialect: '',
};

/** Only what was filled in goes along. */
function toBody(form) {
  const names =
    form.kind === 'repo'
      ? ['repo', 'format', 'revision', 'filename', 'name', 'chat_template', 'dialect']
      : ['path', 'format', 'name', 'chat_template', 'dialect'];
  return Object.fromEntries(
    names.filter((n) => form[n].trim() !== '').map((n) => [n, n === 'chat_template' ? form[n] : form[n].trim()]),
  );
}

function Outcome({ answer }) {
  const files = answer.manifest?.files ?? [];
  const needed = files.filter((f) => f.kind !== 'artifact');
  const artifacts = files.filter((f) => f.kind === 'artifact');
  return html`<div class="outcome" role="status"><span class="outcome-icon"><${Icon} name="check" /></span><div><h3 class="break">${t('register.done', { id: answer.id })}</h3>
    <p class="muted">${answer.manifest ? t('register.doneText', { count: needed.length, size: bytes(needed.reduce((sum, f) => sum + (f.size ?? 0), 0)) }) : t('register.doneLocal')}</p></div></div>
    ${artifacts.length > 0 && html`<${Note} icon="spark">${t('register.artifacts', { names: artifacts.map((f) => f.name).join(', ') })}<//>`}
    ${(answer.warnings ?? []).map((text) => html`<${Note} tone="warn">${text}<//>`)}`;
}

export function Register({ open, onClose }) {
  const [form, setForm] = useState(blank);
  const [answer, setAnswer] = useState(null);
  const order = useOrder();
  const put = (name) => (event) => setForm({ ...form, [name]: event.currentTarget.value });
  const close = () => {
    onClose();
    setForm(blank);
    setAnswer(null);
    order.dismiss();
  };
  const submit = async (event) => {
    event.preventDefault();
    if (order.busy) return;
    const got = await order.run('register', () => api.post('/v0/models/register', toBody(form)));
    if (got) {
      setAnswer(got);
      live.refresh('models');
    }
  };
  const see = () => {
    const { id } = answer;
    close();
    go('models', id);
  };
  const text = (
    name,
    attributes = {},
  ) => html`<${Field} label=${t(`register.${name === 'chat_template' ? 'template' : name}`)} hint=${t(`register.${name === 'chat_template' ? 'template' : name}Hint`)}>
    ${(props) =>
      name === 'chat_template'
        ? html`<textarea rows="3" class="mono" spellcheck=${false} value=${form[name]} onInput=${put(name)} ...${props}></textarea>`
        : html`<input type="text" autocomplete="off" autocapitalize="none" spellcheck=${false} value=${form[name]} onInput=${put(name)} ...${attributes} ...${props} />`}<//>`;
  const footer = answer
    ? html`<${Button} onClick=${() => {
        setAnswer(null);
        setForm(blank);
      }}>${t('register.another')}<//><${Button} kind="primary" onClick=${see}>${t('register.see')}<//>`
    : html`<${Button} onClick=${close}>${t('common.cancel')}<//><${Button} kind="primary" type="submit" form="register-form" busy=${order.busy !== ''}>${order.busy ? t('register.checking') : t('register.submit')}<//>`;
  return html`<${Dialog} open=${open} title=${t('register.title')} onClose=${close} footer=${footer}>
    ${
      answer
        ? html`<${Outcome} answer=${answer} />`
        : html`<form id="register-form" class="stack" onSubmit=${submit}>
      <${ErrorNote} error=${order.error} onDismiss=${order.dismiss} />
      <fieldset class="choice"><legend class="visually-hidden">${t('register.kind')}</legend>${['repo', 'path'].map(
        (kind) => html`<label><input type="radio" name="kind" value=${kind}
        checked=${form.kind === kind} onChange=${put('kind')} /><span>${t(`register.${kind}Kind`)}</span></label>`,
      )}</fieldset>
      ${text(form.kind, { required: true, autofocus: true, placeholder: form.kind === 'repo' ? 'openai/gpt-oss-20b' : '/models/my-model' })}
      <${Field} label=${t('register.format')} hint=${t('register.formatHint')}>${(
        props,
      ) => html`<select value=${form.format} onChange=${put('format')} ...${props}>
        <option value="">${t('register.formatAuto')}</option><option value="safetensors">safetensors</option><option value="gguf">GGUF</option></select>`}<//>
      ${form.kind === 'repo' && html`<p class="hint">${t('register.artifactNote')}</p>`}
      <details><summary>${t('register.more')}</summary><div class="stack">${text('name')}${form.kind === 'repo' && html`${text('revision')}${text('filename')}`}${text('chat_template')}${text('dialect', { placeholder: 'qwen_xml' })}</div></details>
    </form>`
    }<//>`;
}
