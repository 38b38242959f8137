// lib/me.js - what the key or person that is signed in may do.
//
//   setRole('viewer')   once /v0/whoami has answered
//   mayChange()         false for a viewer: the router refuses its changes, so the page offers none

let role = '';

/** @param {string} name a role of /v0/whoami */
export function setRole(name) {
  role = name;
}

/** @returns {boolean} whether the router takes changes, and requests to models */
export const mayChange = () => role !== 'viewer';
