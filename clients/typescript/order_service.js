// Places orders: each is one commit of the stock, an event and a message, and is made once, also
// while the server is killed and comes back.
//
//   node order_service.js http://127.0.0.1:8080 100
import { Mainstem, MainstemError } from "./mainstem.js";

const [url, count] = process.argv.slice(2);
const orders = Number(count);
const m = new Mainstem(url);

// place sells one book: the stock goes down, the order has an event, and a mail is on its way.
/** @param {number} order */
async function place(order) {
  await m.commit({
    id: `order-${order}`,
    do: [
      { "kv.increment": { table: "shop/stock", key: "book", by: -1 } },
      { "event.append": { store: "shop", stream: `order-${order}`, expected: "none", events: [{ type: "Placed", data: { book: 1 } }] } },
      { "topic.publish": { topic: "mail", records: [{ key: String(order), json: { subject: `Order ${order}` } }] } },
    ],
  });
}

await m.topic("mail").create();
try {
  await m.table("shop/stock").put("book", String(orders), { ifAbsent: true, idempotencyKey: "stock" });
} catch (e) {
  if (!(e instanceof MainstemError && e.status === 412)) throw e;
}
for (let order = 1; order <= orders; order++) {
  await place(order);
  console.log(`placed ${order}`);
}
let events = 0;
let mails = 0;
for (let order = 1; order <= orders; order++) for await (const _ of m.events("shop").load(`order-${order}`)) events++;
for await (const _ of m.topic("mail").read()) mails++;
const stock = await m.table("shop/stock").get("book");
console.log(`stock ${new TextDecoder().decode(stock?.value)}, events ${events}, mails ${mails}`);
