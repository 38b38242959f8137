import { html } from 'htm/preact';

export default function SignIn() {
  return html`<div class="page"><h1>llm-router</h1></div>`;
}
