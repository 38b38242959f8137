// pages/signin.js - asks for a key and starts a session with it, or leads to the OpenID provider.
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { t } from '../lib/i18n.js';
import { Button, ErrorNote, Field, useOrder } from '../lib/ui.js';

/** The page to come back to after the way over the provider. */
function rememberPage() {
  try {
    sessionStorage.setItem('lr.page', location.hash);
  } catch {
    /* storage is off */
  }
}

/** @param {{onDone: () => void, provider?: {name: string, path: string}}} props */
export default function SignIn({ onDone, provider }) {
  const [key, setKey] = useState('');
  const { busy, error, run, dismiss } = useOrder();
  const input = useRef(null);
  useEffect(() => {
    document.title = `${t('signin.title')} · llm-router`;
    input.current?.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    if (!key.trim()) {
      input.current.focus();
      return;
    }
    if (await run('in', () => api.post('/v0/session', { key: key.trim() }))) onDone();
    else input.current?.select();
  };
  return html`<div class="signin"><form class="card signin-card" onSubmit=${submit}>
    <p class="brand"><span class="mark" aria-hidden="true"></span><span>llm-router</span></p>
    <h1>${t('signin.title')}</h1>
    <${ErrorNote} error=${error} onDismiss=${dismiss} />
    ${provider && html`<a class="button primary signin-provider" href=${provider.path} onClick=${rememberPage}>${t('signin.with', { name: provider.name })}</a><p class="small muted signin-or">${t('signin.or')}</p>`}
    <${Field} label=${t('signin.key')} hint=${t('signin.hint')}>${(
      props,
    ) => html`<input ref=${input} type="password" name="key" autocomplete="current-password" spellcheck=${false}
      autocapitalize="off" placeholder="lr-…" ...${props} value=${key} onInput=${(e) => setKey(e.currentTarget.value)} />`}<//>
    <${Button} kind=${provider ? 'plain' : 'primary'} type="submit" busy=${busy === 'in'}>${t('signin.action')}<//>
    <details class="small"><summary>${t('signin.noKey')}</summary><p class="muted">${t('signin.noKeyText')}</p><pre tabindex="0"><code>llm-router keys create --role admin</code></pre></details></form></div>`;
}
