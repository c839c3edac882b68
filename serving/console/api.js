// Requests to the sidecar, with the token where it asks for one. Addresses are relative: a proxy may add a prefix.

import { byId, setText } from "./dom.js";

const TOKEN = "pilotfish-token";

let asking = null; // one prompt, however many requests were refused

export async function request(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const reply = await fetch(path, { ...options, headers, cache: "no-store", redirect: "error" });
    if (reply.status !== 401) return reply;
    await reply.body?.cancel();
    await newToken(token);
  }
}

export async function post(path, body) {
  const reply = await request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  if (!reply.ok) throw new Error(await problemOf(reply));
  return reply.json();
}

// What the sidecar says is wrong; a proxy in between may have answered something else.
export async function problemOf(reply) {
  try {
    return (await reply.json()).error ?? `the answer was ${reply.status}`;
  } catch {
    return `the answer was ${reply.status}`;
  }
}

function newToken(refused) {
  if (sessionStorage.getItem(TOKEN) !== refused) return Promise.resolve(); // entered meanwhile
  asking ??= ask(refused).finally(() => { asking = null; });
  return asking;
}

function ask(refused) {
  const dialog = byId("token-prompt");
  setText(byId("token-why"), refused ? "The token that was given is not accepted." : "It is one of those in the sidecar's settings.");
  byId("token").value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // nothing works without it
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(TOKEN, byId("token").value.trim());
      dialog.close();
      resolve();
    };
  });
}
