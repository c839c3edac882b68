// Server-sent events by fetch, because EventSource cannot send a token. Reconnects by itself, and says so.

import { problemOf, request } from "./api.js";

const SILENT_MS = 8000; // the sidecar speaks every two seconds: after this the connection is as good as gone
const RETRY_MS = [500, 1000, 2000, 4000, 5000];

// handlers: event name -> function of its content; onState("connecting" | "live" | "lost", detail)
export async function follow(path, handlers, onState) {
  onState("connecting", "");
  for (let attempt = 0; ; attempt += 1) {
    const why = await readUntilItEnds(path, handlers, () => { attempt = 0; onState("live", ""); });
    const wait = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)];
    onState("lost", why);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function readUntilItEnds(path, handlers, onFirst) {
  const stop = new AbortController();
  let silence = setTimeout(() => stop.abort(), SILENT_MS);
  try {
    const reply = await request(path, { signal: stop.signal });
    if (!reply.ok) return await problemOf(reply);
    let first = true;
    for await (const [name, content] of eventsOf(reply.body)) {
      clearTimeout(silence);
      silence = setTimeout(() => stop.abort(), SILENT_MS);
      if (first) onFirst();
      first = false;
      tell(handlers[name], content);
    }
    return "the sidecar ended it";
  } catch (error) {
    return error instanceof SyntaxError ? "what came cannot be read" : "no answer";
  } finally {
    clearTimeout(silence);
    stop.abort();
  }
}

// A defect of the page is an error of the page, not of the connection.
function tell(handler, content) {
  try {
    handler?.(content);
  } catch (error) {
    reportError(error);
  }
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (pending + value).split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) yield parsed(block);
  }
}

function parsed(block) {
  const lines = block.split("\n");
  const field = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join("\n");
  return [field("event"), JSON.parse(field("data"))];
}
