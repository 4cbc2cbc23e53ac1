// A service that takes orders over HTTP. Each order is one commit of the stock, an event and a
// message, and is made once, also while the Mainstem server is killed and comes back.
//
//   node order_service.js http://127.0.0.1:8080 127.0.0.1:8090
//   curl http://127.0.0.1:8090/orders -d '{"id":"1","customer":"ada","books":2}'
//
// The customer chooses the id of an order, and sends the order again with the same id where no
// answer came. The answer is 201 when the order is made, and 503 if the server did not answer in
// time: then the order may be made, or not.
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { Mainstem, MainstemError } from "./mainstem.js";

const [url, listen, stock = "1000"] = process.argv.slice(2); // the stock counts where there is none yet
const m = new Mainstem(url);

// place sells books: the stock goes down, the order has an event, and a mail is on its way. It
// returns whether the order was made before.
/** @param {{ id: string, customer: string, books: number }} order */
async function place({ id, customer, books }) {
  const made = await m.commit({
    id: `order-${id}`,
    do: [
      { "kv.increment": { table: "shop/stock", key: "book", by: -books } },
      { "event.append": { store: "shop", stream: `order-${id}`, expected: "none", events: [{ type: "Placed", data: { order: id, customer, books } }] } },
      { "topic.publish": { topic: "mail", records: [{ key: id, json: { to: customer, order: id, books } }] } },
    ],
  });
  return made.duplicate;
}

// parse returns the order of a body, undefined if it is none.
/** @param {string} body */
function parse(body) {
  try {
    const { id, customer, books } = JSON.parse(body);
    if (typeof id === "string" && typeof customer === "string" && Number.isSafeInteger(books) && books > 0) return { id, customer, books };
  } catch {}
  return undefined;
}

// serve returns the status and the body of an answer.
/** @param {import("node:http").IncomingMessage} request */
async function serve(request) {
  if (request.method !== "POST" || request.url !== "/orders") return { status: 404, body: { error: `${request.method} ${request.url}: want POST /orders` } };
  const order = parse(await text(request));
  if (!order) return { status: 400, body: { error: 'want {"id":"1","customer":"ada","books":2}' } };
  try {
    return { status: 201, body: { order: order.id, duplicate: await place(order) } };
  } catch (e) {
    if (!(e instanceof MainstemError)) throw e;
    return { status: e.status || 503, body: { error: e.message } };
  }
}

await m.topic("mail").create();
try {
  await m.table("shop/stock").put("book", stock, { ifAbsent: true, idempotencyKey: "stock" });
} catch (e) {
  if (!(e instanceof MainstemError && e.status === 412)) throw e;
}
const server = createServer((request, response) => {
  serve(request).then(
    ({ status, body }) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body)),
    (e) => response.destroy(e), // the customer has gone
  );
});
const at = new URL(`http://${listen}`);
server.listen(Number(at.port), at.hostname, () => {
  const bound = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`listening on http://${at.hostname}:${bound.port}`);
});
