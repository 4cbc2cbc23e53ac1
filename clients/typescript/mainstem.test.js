// Tests of the client on a real server, whose URL is in MAINSTEM_URL.
//
//   MAINSTEM_URL=http://127.0.0.1:8080 node --test
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
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

test("a server that is not there", async () => {
  const nobody = new Mainstem("http://127.0.0.1:1", { patience: 0 });
  await assert.rejects(nobody.table("t").put("k", "v"), (/** @type {any} */ e) => e.status === 0 && e.outcome === "unknown");
});
