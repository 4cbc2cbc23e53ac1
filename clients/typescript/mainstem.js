// Client of a Mainstem server. mainstem.d.ts has the types; docs/http.md of Mainstem says what
// the paths and fields mean.
//
//   import { Mainstem } from "mainstem";
//   const m = new Mainstem("http://127.0.0.1:8080");
//   await m.table("app/users").put("42", '{"name":"Ada"}');
//
// A request with an idempotency key is sent again when the connection breaks, or the server says
// that it may succeed later, for up to `patience`: it is made once. Reads are sent again, too;
// other writes are not.

export class MainstemError extends Error {
  constructor(status, problem) {
    super(`${status} ${problem.kind ?? "unavailable"}: ${problem.detail ?? ""}`);
    this.status = status;
    this.problem = problem;
    this.kind = problem.kind ?? "unavailable";
    this.outcome = problem.outcome ?? "";
  }
}

const segment = encodeURIComponent;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export class Mainstem {
  constructor(url, { token, timeout = 60_000, patience = 60_000 } = {}) {
    Object.assign(this, { url: url.replace(/\/+$/, ""), token, timeout, patience, headers: {} });
  }

  waitFor(position) {
    const waiting = new Mainstem(this.url, this);
    waiting.headers = { ...this.headers, "Mainstem-Wait-For": String(position) };
    return waiting;
  }

  table(name) {
    return new Table(this, name);
  }

  events(store) {
    return new Store(this, store);
  }

  topic(name) {
    return new Topic(this, name);
  }

  async commit({ id, if: conditions = [], do: actions = [] }) {
    const body = JSON.stringify({ if: conditions, do: actions });
    return (await this.request("POST", "/v1/commit", { body, key: id })).json();
  }

  async request(method, path, { query, headers = {}, body, key } = {}) {
    const safe = method === "GET" || key !== undefined;
    const until = Date.now() + this.patience;
    const head = key === undefined ? headers : { ...headers, "Idempotency-Key": key };
    for (let pause = 50; ; pause = Math.min(2 * pause, 1000)) {
      try {
        const answer = await this.#send(method, path, query, head, body, AbortSignal.timeout(this.timeout));
        return new Response(answer.status === 204 ? null : await this.#read(answer), { headers: answer.headers, status: answer.status });
      } catch (e) {
        if (!(e instanceof MainstemError) || !safe || (e.status !== 0 && e.status !== 503) || Date.now() > until) throw e;
      }
      await sleep(pause * (0.5 + Math.random() / 2));
    }
  }

  async *follow(path, { query, lastId } = {}) {
    const headers = { Accept: "text/event-stream" };
    if (lastId !== undefined) headers["Last-Event-ID"] = lastId;
    const stop = new AbortController();
    try {
      const answer = await this.#send("GET", path, query, headers, undefined, stop.signal);
      const decoder = new TextDecoder();
      let text = "";
      for await (const chunk of answer.body) {
        text += decoder.decode(chunk, { stream: true });
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const event = parseEvent(text.slice(0, end));
          if (event === undefined) continue; // a heartbeat
          if (event.type === "error") throw new MainstemError(event.data.status, event.data);
          yield event;
        }
      }
    } finally {
      stop.abort();
    }
  }

  async #read(answer) {
    try {
      return await answer.arrayBuffer();
    } catch (e) {
      throw unanswered(e);
    }
  }

  async #send(method, path, query, headers, body, signal) {
    const url = new URL(this.url + path);
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value === undefined || value === false) continue;
      for (const v of [value].flat()) url.searchParams.append(name, v);
    }
    const head = { ...this.headers, ...headers };
    if (this.token) head.Authorization = `Bearer ${this.token}`;
    let answer;
    try {
      answer = await fetch(url, { method, headers: head, body, signal });
    } catch (e) {
      throw unanswered(e);
    }
    if (answer.ok) return answer;
    const text = await answer.text().catch(() => "");
    let problem;
    try {
      problem = JSON.parse(text);
    } catch {
      problem = { detail: text };
    }
    throw new MainstemError(answer.status, problem);
  }
}

function unanswered(e) {
  return new MainstemError(0, { kind: "unavailable", outcome: "unknown", detail: String(e.cause ?? e) });
}

function parseEvent(text) {
  const event = { id: "", type: "message", data: undefined };
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
    if (name === "id") event.id = value;
    if (name === "event") event.type = value;
    if (name === "data") event.data = JSON.parse(value);
  }
  return event.data === undefined ? undefined : event;
}

const keyOf = (e) => e.key ?? Buffer.from(e.key64, "base64").toString("latin1");
const valueOf = (e) => new Uint8Array(Buffer.from(e.base64, "base64"));

class Table {
  constructor(client, name) {
    const [database, ...rest] = name.includes("/") ? name.split("/") : ["default", name];
    this.client = client;
    this.path = `/v1/kv/${segment(database)}/${segment(rest.join("/"))}`;
  }

  async get(key, { revision, at } = {}) {
    try {
      const answer = await this.client.request("GET", `${this.path}/by-key`, { query: { key, revision, at } });
      const found = Number(answer.headers.get("Mainstem-Revision"));
      return { key, value: new Uint8Array(await answer.arrayBuffer()), revision: found, position: answer.headers.get("Mainstem-Position") };
    } catch (e) {
      if (e.status === 404) return undefined;
      throw e;
    }
  }

  async put(key, value, { ttl, ifRevision, ifAbsent, idempotencyKey } = {}) {
    const headers = { "Content-Type": "application/octet-stream" };
    if (ttl !== undefined) headers["Mainstem-TTL"] = ttl;
    if (ifRevision !== undefined) headers["If-Match"] = `"${ifRevision}"`;
    if (ifAbsent) headers["If-None-Match"] = "*";
    const answer = await this.client.request("PUT", `${this.path}/by-key`, { query: { key }, headers, body: value, key: idempotencyKey });
    return (await answer.json()).revision;
  }

  async putMany(entries, { idempotencyKey } = {}) {
    return (await this.client.request("POST", this.path, { body: JSON.stringify(entries), key: idempotencyKey })).json();
  }

  async delete(key, { purge } = {}) {
    return (await (await this.client.request("DELETE", `${this.path}/by-key`, { query: { key, purge } })).json()).revision;
  }

  async increment(key, by = 1, { idempotencyKey } = {}) {
    const body = JSON.stringify({ by: String(by) });
    const answer = await this.client.request("POST", `${this.path}/by-key`, { query: { key, op: "increment" }, body, key: idempotencyKey });
    return BigInt((await answer.json()).value);
  }

  async *list(prefix = "") {
    for (let after = {}; ; ) {
      const answer = await this.client.request("GET", this.path, { query: { prefix, as: "base64", ...after } });
      const page = await answer.json();
      for (const e of page.entries) {
        yield { key: keyOf(e), value: valueOf(e), revision: e.revision, position: e.position };
      }
      if (page.next !== undefined) after = { after: page.next };
      else if (page.next64 !== undefined) after = { after64: page.next64 };
      else return;
    }
  }

  async *watch({ prefix, after } = {}) {
    for await (const { type, data } of this.client.follow(this.path, { query: { prefix, as: "base64" }, lastId: after })) {
      if (type === "synced") yield { type, position: data.position };
      else yield { type, key: keyOf(data), value: type === "put" ? valueOf(data) : undefined, revision: data.revision, position: data.position };
    }
  }
}

class Store {
  constructor(client, name) {
    this.client = client;
    this.path = `/v1/events/${segment(name)}`;
  }

  #stream(name) {
    return `${this.path}/streams/${segment(name)}`;
  }

  async append(stream, events, { expected = "any", idempotencyKey } = {}) {
    const headers = { "Expected-Version": String(expected) };
    return (await this.client.request("POST", this.#stream(stream), { headers, body: JSON.stringify(events), key: idempotencyKey })).json();
  }

  async *load(stream, from = 1) {
    while (from !== undefined) {
      const page = await (await this.client.request("GET", this.#stream(stream), { query: { from } })).json();
      yield* page.events;
      from = page.next;
    }
  }

  async *follow({ after, category, tags } = {}) {
    for await (const { data } of this.client.follow(`${this.path}/feed`, { query: { category, tag: tags }, lastId: after })) yield data;
  }

  async delete(stream, { expected, tombstone, forget, idempotencyKey } = {}) {
    const headers = expected === undefined ? {} : { "Expected-Version": String(expected) };
    await this.client.request("DELETE", this.#stream(stream), { query: { tombstone, forget }, headers, key: idempotencyKey });
  }

  async archive(stream, { idempotencyKey } = {}) {
    await this.client.request("POST", this.#stream(stream), { query: { op: "archive" }, key: idempotencyKey });
  }

  async unarchive(stream, { idempotencyKey } = {}) {
    await this.client.request("POST", this.#stream(stream), { query: { op: "unarchive" }, key: idempotencyKey });
  }

  async truncate(stream, before, { idempotencyKey } = {}) {
    await this.client.request("POST", this.#stream(stream), { query: { op: "truncate", before }, key: idempotencyKey });
  }

  async settings(stream) {
    return (await this.client.request("GET", `${this.#stream(stream)}/settings`)).json();
  }

  async putSettings(stream, settings, { idempotencyKey } = {}) {
    await this.client.request("PUT", `${this.#stream(stream)}/settings`, { body: JSON.stringify(settings), key: idempotencyKey });
  }

  async snapshot(stream, { upTo } = {}) {
    try {
      const answer = await this.client.request("GET", `${this.#stream(stream)}/snapshot`, { query: { upTo } });
      const version = Number(answer.headers.get("Mainstem-Version"));
      return { version, type: answer.headers.get("Mainstem-Type") ?? "", data: new Uint8Array(await answer.arrayBuffer()) };
    } catch (e) {
      if (e.status === 404) return undefined;
      throw e;
    }
  }

  async putSnapshot(stream, { version, type, data }, { idempotencyKey } = {}) {
    const headers = { "Mainstem-Version": String(version), "Content-Type": "application/octet-stream" };
    if (type) headers["Mainstem-Type"] = type;
    await this.client.request("PUT", `${this.#stream(stream)}/snapshot`, { headers, body: data, key: idempotencyKey });
  }

  async deleteSnapshots(stream) {
    await this.client.request("DELETE", `${this.#stream(stream)}/snapshot`);
  }

  subscription(name) {
    return new Subscription(this.client, `${this.path}/subscriptions/${segment(name)}`);
  }
}

class Subscription {
  constructor(client, path) {
    Object.assign(this, { client, path });
  }

  async put(spec) {
    return (await this.client.request("PUT", this.path, { body: JSON.stringify(spec) })).json();
  }

  async claim(consumer, { max = 10, wait = "0s" } = {}) {
    const answer = await this.client.request("POST", `${this.path}/claim`, { body: JSON.stringify({ consumer, max, wait }) });
    return (await answer.json()).events;
  }

  async ack(...claimed) {
    await this.client.request("POST", `${this.path}/ack`, { body: JSON.stringify({ tokens: claimed.map((c) => c.token) }) });
  }

  async nack(claimed, action = "retry", reason = "") {
    await this.client.request("POST", `${this.path}/nack`, { body: JSON.stringify({ tokens: claimed.map((c) => c.token), action, reason }) });
  }

  async info() {
    return (await this.client.request("GET", this.path)).json();
  }

  async parked({ limit } = {}) {
    return (await (await this.client.request("GET", `${this.path}/parked`, { query: { limit } })).json()).parked;
  }

  async retryParked() {
    return (await this.client.request("POST", `${this.path}/retry-parked`)).json();
  }

  async reset(position = 0) {
    return (await this.client.request("POST", `${this.path}/reset`, { query: { position } })).json();
  }

  async delete() {
    await this.client.request("DELETE", this.path);
  }
}

class Topic {
  constructor(client, name) {
    this.client = client;
    this.path = `/v1/topics/${segment(name)}`;
  }

  async create(spec = {}) {
    return (await this.client.request("PUT", this.path, { body: JSON.stringify(spec) })).json();
  }

  async publish(records, { idempotencyKey } = {}) {
    return (await (await this.client.request("POST", this.path, { body: JSON.stringify(records), key: idempotencyKey })).json()).batches;
  }

  async *read(partition = 0, offset = 0) {
    for (let next = BigInt(offset); ; ) {
      const page = await (await this.client.request("GET", this.path, { query: { partition, offset: String(next) } })).json();
      yield* page.records;
      next = BigInt(page.next);
      if (next >= BigInt(page.end) || page.records.length === 0) return;
    }
  }

  group(name) {
    return new Group(this.client, `${this.path}/groups/${segment(name)}`);
  }
}

class Group {
  constructor(client, path) {
    Object.assign(this, { client, path });
  }

  async claim(consumer, { max = 10, wait = "0s", messageTimeout = "30s" } = {}) {
    const answer = await this.client.request("POST", `${this.path}/claim`, { body: JSON.stringify({ consumer, max, wait, messageTimeout }) });
    return (await answer.json()).records;
  }

  async ack(...claimed) {
    await this.client.request("POST", `${this.path}/ack`, { body: JSON.stringify({ tokens: claimed.map((c) => c.token) }) });
  }

  async nack(claimed, action = "retry") {
    await this.client.request("POST", `${this.path}/nack`, { body: JSON.stringify({ tokens: claimed.map((c) => c.token), action }) });
  }

  async offsets() {
    return (await (await this.client.request("GET", this.path)).json()).offsets;
  }
}
