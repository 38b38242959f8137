import chat from './en/chat.js';
import common from './en/common.js';
import keys from './en/keys.js';
import models from './en/models.js';
import nodes from './en/nodes.js';
import overview from './en/overview.js';
import palette from './en/palette.js';
import playground from './en/playground.js';
import shorter from './en/reasons.js';
import register from './en/register.js';
import requests from './en/requests.js';
import self from './en/self.js';
import signin from './en/signin.js';
import welcome from './en/welcome.js';
import { reasons } from './reasons.js';

export default {
  chat,
  common,
  keys,
  models,
  nodes,
  overview,
  palette,
  playground,
  reasons: { ...reasons.en, ...shorter },
  register,
  requests,
  self,
  signin,
  welcome,
};
