export default {
  title: 'Sign in',
  key: 'Key',
  hint: 'A key of role admin sees everything, one of role api the playground.',
  action: 'Sign in',
  noKey: 'No key at hand?',
  noKeyText: 'The router printed one at its first start. Whoever has an admin key makes more with:',
};
