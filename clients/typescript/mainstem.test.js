// Tests of the client on a real server, whose URL is in MAINSTEM_URL.
//
//   MAINSTEM_URL=http://127.0.0.1:8080 node --test
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { Mainstem, MainstemError } from "./mainstem.js";

const m = new Mainstem(process.env.MAINSTEM_URL ?? "", { patience: 5000 });
/**
 * @template T
 * @param {AsyncIterable<T>} items
 */
const all = async (items) => {
  const out = [];
  for await (const item of items) out.push(item);
  return out;
};

test("a table", async () => {
  const t = m.table(`ts/${randomUUID()}`);
  assert.equal(await t.get("a/b"), undefined);
  assert.equal(await t.put("a/b", new Uint8Array([0, 255])), 1);
  assert.deepEqual((await t.get("a/b"))?.value, new Uint8Array([0, 255]));
  const entry = await t.get("a/b");
  assert.deepEqual(await t.get("a/b", { at: entry?.position }), entry);
  assert.deepEqual(await t.get("a/b", { revision: 1 }), entry);
  await assert.rejects(t.put("a/b", "x", { ifRevision: 7 }), (/** @type {any} */ e) => e instanceof MainstemError && e.status === 412 && e.kind === "conflict" && e.outcome === "not_written");
  assert.equal(await t.increment("n", 2n ** 53n + 1n), 2n ** 53n + 1n);
  assert.equal(await t.increment("n", 1, { idempotencyKey: "k" }), 2n ** 53n + 2n);
  assert.equal(await t.increment("n", 1, { idempotencyKey: "k" }), 2n ** 53n + 2n);
  for (let i = 100; i < 250; i++) await t.put(`p${i}`, String(i), { ttl: "1h" });
  assert.deepEqual((await all(t.list("p"))).map((e) => new TextDecoder().decode(e.value)), Array.from({ length: 150 }, (_, i) => String(i + 100)));
  assert.equal(await t.delete("a/b"), 2);
});

/**
 * status says whether an error has a status.
 * @param {number} want
 */
const status = (want) => (/** @type {any} */ e) => e instanceof MainstemError && e.status === want;

test("many keys", async () => {
  const t = m.table(`ts/${randomUUID()}`);
  const idempotencyKey = randomUUID();
  for (const duplicate of [false, true]) {
    const written = await t.putMany([{ key: "a", text: "1" }, { key: "b/c", base64: "AP8=", ttl: "1h" }], { idempotencyKey });
    assert.deepEqual([written.revisions, written.duplicate], [[1, 1], duplicate]);
  }
  assert.deepEqual((await all(t.list())).map((e) => [e.key, [...e.value]]), [["a", [49]], ["b/c", [0, 255]]]);
  await assert.rejects(t.putMany([{ key: "a", text: "2" }, { key: "b/c", text: "2", ifAbsent: true }]), (/** @type {any} */ e) => e.status === 409 && e.outcome === "not_written");
  assert.equal((await t.get("a"))?.revision, 1);
});

test("a watch", async () => {
  const t = m.table(`ts/${randomUUID()}`);
  await t.put("other", "0");
  await t.put("k/1", new Uint8Array([255]));
  let gone = "";
  const seen = [];
  for await (const c of t.watch({ prefix: "k/" })) {
    seen.push(c.type === "synced" ? c.type : [c.type, c.key, c.value && [...c.value], c.revision]);
    if (c.type === "synced") await t.put("k/1", "2");
    // Only now: a watch may pass over a value that was replaced before it was read.
    if (c.type === "put" && c.revision === 2) await t.delete("k/1");
    gone = c.position;
    if (c.type === "delete") break;
  }
  assert.deepEqual(seen, [["put", "k/1", [255], 1], "synced", ["put", "k/1", [50], 2], ["delete", "k/1", undefined, 3]]);
  await t.put("k/2", "3");
  for await (const c of t.watch({ prefix: "k/", after: gone })) {
    assert.deepEqual(c.type === "put" && [c.key, [...c.value]], ["k/2", [51]]);
    break;
  }
});

test("a position that is waited for", async () => {
  const name = `ts/${randomUUID()}`;
  const { position } = await m.table(name).putMany([{ key: "k", text: "old" }]);
  const read = m.waitFor(BigInt(position) + 1n).table(name).get("k");
  await m.table(name).put("k", "new");
  assert.equal(new TextDecoder().decode((await read)?.value), "new");
  await assert.rejects(m.waitFor(-1).table(name).get("k"), (/** @type {any} */ e) => e.status === 400 && /Mainstem-Wait-For/.test(e.message));
});

test("streams", async () => {
  const s = m.events(randomUUID());
  await s.append("order-1", [{ type: "Placed" }, { type: "Paid" }, { type: "Sent" }]);
  assert.deepEqual(await s.settings("order-1"), {});
  const settings = { maxCount: 100, maxAge: "720h0m0s", custom: { owner: "ada" } };
  await s.putSettings("order-1", settings, { idempotencyKey: randomUUID() });
  assert.deepEqual(await s.settings("order-1"), settings);

  assert.equal(await s.snapshot("order-1"), undefined);
  const snapshot = { version: 2, type: "order.v1", data: new Uint8Array([0, 255]) };
  await s.putSnapshot("order-1", snapshot);
  assert.deepEqual(await s.snapshot("order-1"), snapshot);
  assert.equal(await s.snapshot("order-1", { upTo: 1 }), undefined);
  await s.deleteSnapshots("order-1");
  assert.equal(await s.snapshot("order-1"), undefined);

  await s.truncate("order-1", 3);
  assert.deepEqual((await all(s.load("order-1"))).map((e) => e.version), [3]);
  await s.archive("order-1");
  await assert.rejects(s.append("order-1", [{ type: "Returned" }]), status(423));
  await s.unarchive("order-1");
  await s.append("order-1", [{ type: "Returned" }], { expected: 3 });

  await assert.rejects(s.delete("order-1", { expected: 7 }), status(409));
  await s.delete("order-1", { expected: 4 });
  await assert.rejects(all(s.load("order-1")), status(404));
  assert.equal((await s.append("order-1", [{ type: "Placed" }])).first, 6); // a deletion has a version, too
  await s.delete("order-1", { tombstone: true });
  await assert.rejects(s.append("order-1", [{ type: "Placed" }]), status(423));
  await s.append("order-2", [{ type: "Placed" }]);
  await s.delete("order-2", { forget: true });
  await assert.rejects(all(s.load("order-2")), status(404));
});

test("events", async () => {
  const s = m.events(randomUUID());
  await s.append("order-1", Array.from({ length: 150 }, (_, n) => ({ type: "Placed", data: { n } })), { expected: "none" });
  const events = await all(s.load("order-1"));
  assert.deepEqual(events.map((e) => /** @type {any} */ (e.data).n), Array.from({ length: 150 }, (_, n) => n));
  await assert.rejects(s.append("order-1", [{ type: "X" }], { expected: 7 }), (/** @type {any} */ e) => e.status === 409 && e.problem.actual === 150);
  for await (const e of s.follow({ after: events[10].position })) {
    assert.equal(e.version, 12);
    break;
  }
  await s.append("course-1", [{ type: "Left", tags: ["student:ada", "course:c1"] }]);
  for await (const e of s.follow({ tags: ["course:c1", "student:ada"] })) {
    assert.deepEqual([e.type, e.tags], ["Left", ["student:ada", "course:c1"]]);
    break;
  }
});

test("a subscription", async () => {
  const s = m.events(randomUUID());
  const sub = s.subscription("mailer");
  await sub.put({ select: { category: "order" }, maxRetry: 1 });
  await s.append("order-1", [{ type: "Placed" }, { type: "Paid" }]);
  const [first, second] = await sub.claim("a", { wait: "5s" });
  await sub.ack(first);
  await sub.nack([second], "retry", "later");
  const [again] = await sub.claim("a");
  assert.deepEqual([again.event.type, again.attempt], ["Paid", 2]);
  await assert.rejects(sub.ack(second), (/** @type {any} */ e) => e.status === 409);
  await sub.ack(again);
});

test("parked events", async () => {
  const s = m.events(randomUUID());
  const sub = s.subscription("mailer");
  await sub.put({});
  await s.append("order-1", [{ type: "Placed" }, { type: "Paid" }]);
  const [first, second] = await sub.claim("a", { wait: "5s" });
  await sub.nack([first], "park", "no address");
  await sub.ack(second);
  const [parked] = await sub.parked();
  assert.deepEqual([parked.stream, parked.version, parked.attempts, parked.reason], ["order-1", 1, 1, "no address"]);
  assert.deepEqual([parked.position, (await sub.info()).parked], [first.event.position, 1]);
  assert.deepEqual(await sub.retryParked(), { retried: 1, more: false });
  assert.deepEqual(await sub.parked({ limit: 5 }), []);
  const [again] = await sub.claim("a", { wait: "5s" });
  assert.deepEqual(again.event, first.event);
  await sub.reset(first.event.position);
  await assert.rejects(sub.ack(again), status(409));
  const [after] = await sub.claim("a", { wait: "5s" });
  assert.deepEqual(after.event, second.event);
  await sub.delete();
  await assert.rejects(sub.info(), status(404));
});

test("a topic, and one commit", async () => {
  const name = randomUUID();
  const t = m.topic(name);
  await t.create({ partitions: 1 });
  let r;
  for (let i = 0; i < 2; i++) r = await m.commit({ id: name, do: [{ "topic.publish": { topic: name, records: [{ key: "k", text: "v" }] } }] });
  assert.equal(r?.duplicate, true);
  await t.publish([{ key: "l", json: { n: 1 } }]);
  assert.deepEqual((await all(t.read())).map((r) => [r.offset, r.key]), [["0", "k"], ["1", "l"]]);
});

test("claims of records", async () => {
  const t = m.topic(randomUUID());
  await t.create({ partitions: 1 });
  await t.publish([{ text: "a" }, { text: "b" }]);
  const g = t.group("senders");
  const [first, second] = await g.claim("one", { wait: "5s" });
  await g.ack(first);
  await g.nack([second]);
  const [again] = await g.claim("two");
  assert.deepEqual([again.record.text, again.attempt], ["b", 2]);
  await assert.rejects(g.ack(second), (/** @type {any} */ e) => e.status === 409);
  await g.ack(again);
  assert.deepEqual(await g.offsets(), [{ partition: 0, offset: "2" }]);
});

test("the code of the README", async (t) => {
  const page = await readFile(new URL("README.md", import.meta.url), "utf8");
  const code = [...page.matchAll(/```js\n(.*?)```/gs)].map((block) => block[1]).join("\n");
  /** @type {unknown[][]} */
  const printed = [];
  t.mock.method(console, "log", (/** @type {unknown[]} */ ...line) => printed.push(line));
  const here = code.replace('"mainstem"', JSON.stringify(new URL("mainstem.js", import.meta.url))).replaceAll("http://127.0.0.1:8080", process.env.MAINSTEM_URL ?? "");
  await import(`data:text/javascript,${encodeURIComponent(here)}`);
  assert.deepEqual(printed, [["-1"], ["42", '{"name":"Ada"}'], ["43", '{"name":"Bob"}'], ['{"name":"Eve"}']]);
});

test("a server that is not there", async () => {
  const nobody = new Mainstem("http://127.0.0.1:1", { patience: 0 });
  await assert.rejects(nobody.table("t").put("k", "v"), (/** @type {any} */ e) => e.status === 0 && e.outcome === "unknown");
});
