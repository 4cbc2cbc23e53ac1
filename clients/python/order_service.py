"""A service that takes orders over HTTP. Each order is one commit of the stock, an event and a message, and is made once,
also while the Mainstem server is killed and comes back.

    python3 order_service.py http://127.0.0.1:8080 127.0.0.1:8090
    curl http://127.0.0.1:8090/orders -d '{"id":"1","customer":"ada","books":2}'

The customer chooses the id of an order, and sends the order again with the same id where no answer came. The answer is 201
when the order is made, and 503 if the server did not answer in time: then the order may be made, or not.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mainstem import Mainstem, MainstemError


def place(m: Mainstem, id: str, customer: str, books: int) -> bool:
    """Sell books: the stock goes down, the order has an event, and a mail is on its way. Returns False if the order was made
    before."""
    made = m.commit(
        id=f"order-{id}",
        do=[
            {"kv.increment": {"table": "shop/stock", "key": "book", "by": -books}},
            {
                "event.append": {
                    "store": "shop",
                    "stream": f"order-{id}",
                    "expected": "none",
                    "events": [{"type": "Placed", "data": {"order": id, "customer": customer, "books": books}}],
                }
            },
            {"topic.publish": {"topic": "mail", "records": [{"key": id, "json": {"to": customer, "order": id, "books": books}}]}},
        ],
    )
    return not made["duplicate"]


class Orders(BaseHTTPRequestHandler):
    """Serves POST /orders. Each request has a thread of its own; all of them share the client m."""

    m: Mainstem

    def do_POST(self) -> None:
        if self.path != "/orders":
            return self.answer(404, {"error": f"the path is {self.path}: want /orders"})
        try:
            order = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            id, customer, books = str(order["id"]), str(order["customer"]), int(order["books"])
        except (ValueError, KeyError, TypeError) as e:
            return self.answer(400, {"error": f'{e!r}: want {{"id":"1","customer":"ada","books":2}}'})
        if books < 1:
            return self.answer(400, {"error": f"books is {books}: want 1 or more"})
        try:
            new = place(self.m, id, customer, books)
        except MainstemError as e:
            return self.answer(e.status or 503, {"error": str(e)})
        self.answer(201, {"order": id, "duplicate": not new})

    def answer(self, status: int, body: dict[str, object]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # connections that wait to be accepted

    def handle_error(self, request: object, client_address: object) -> None:
        """A customer that does not wait for the answer is no error of the service."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    url, listen = sys.argv[1:3]
    stock = sys.argv[3] if len(sys.argv) > 3 else "1000"  # where there is none yet
    m = Orders.m = Mainstem(url)
    m.topic("mail").create()
    try:
        m.table("shop/stock").put("book", stock, if_absent=True, idempotency_key="stock")
    except MainstemError as e:
        if e.status != 412:
            raise
    host, _, port = listen.rpartition(":")
    with Server((host, int(port)), Orders) as s:
        print(f"listening on http://{host}:{s.server_port}", flush=True)
        s.serve_forever()


if __name__ == "__main__":
    main()
