import chat from './ja/chat.js';
import common from './ja/common.js';
import keys from './ja/keys.js';
import models from './ja/models.js';
import nodes from './ja/nodes.js';
import overview from './ja/overview.js';
import palette from './ja/palette.js';
import playground from './ja/playground.js';
import register from './ja/register.js';
import requests from './ja/requests.js';
import self from './ja/self.js';
import signin from './ja/signin.js';
import welcome from './ja/welcome.js';
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
  reasons: reasons.ja,
  register,
  requests,
  self,
  signin,
  welcome,
};
