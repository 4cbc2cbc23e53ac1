"""Places orders: each is one commit of the stock, an event and a message, and is made once, also
while the server is killed and comes back.

    python3 order_service.py http://127.0.0.1:8080 100
"""

import sys

from mainstem import Mainstem, MainstemError


def place(m: Mainstem, order: int) -> None:
    """Sell one book: the stock goes down, the order has an event, and a mail is on its way."""
    m.commit(
        id=f"order-{order}",
        do=[
            {"kv.increment": {"table": "shop/stock", "key": "book", "by": -1}},
            {"event.append": {"store": "shop", "stream": f"order-{order}", "expected": "none", "events": [{"type": "Placed", "data": {"book": 1}}]}},
            {"topic.publish": {"topic": "mail", "records": [{"key": str(order), "json": {"subject": f"Order {order}"}}]}},
        ],
    )


def main() -> None:
    m = Mainstem(sys.argv[1])
    orders = int(sys.argv[2])
    m.topic("mail").create()
    try:
        m.table("shop/stock").put("book", str(orders), if_absent=True, idempotency_key="stock")
    except MainstemError as e:
        if e.status != 412:
            raise
    for order in range(1, orders + 1):
        place(m, order)
        print(f"placed {order}", flush=True)
    stock = m.table("shop/stock").get("book")
    mails = list(m.topic("mail").read())
    placed = sum(1 for order in range(1, orders + 1) for _ in m.events("shop").load(f"order-{order}"))
    print(f"stock {stock.value.decode() if stock else None}, events {placed}, mails {len(mails)}")


if __name__ == "__main__":
    main()
