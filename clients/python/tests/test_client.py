"""Tests of the client on a real server, whose URL is in MAINSTEM_URL.

    MAINSTEM_URL=http://127.0.0.1:8080 python3 -m unittest discover -s clients/python/tests
"""

import os
import sys
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from mainstem import Mainstem, MainstemError  # noqa: E402


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        self.m = Mainstem(os.environ["MAINSTEM_URL"], patience=5)
        self.unique = uuid.uuid4().hex

    def test_table(self) -> None:
        t = self.m.table(f"py/{self.unique}")
        self.assertIsNone(t.get("a/b"))
        self.assertEqual(t.put("a/b", b"\x00\xff"), 1)
        entry = t.get("a/b")
        assert entry is not None
        self.assertEqual((entry.value, entry.revision), (b"\x00\xff", 1))
        with self.assertRaises(MainstemError) as failed:
            t.put("a/b", "x", if_revision=7)
        self.assertEqual((failed.exception.status, failed.exception.kind, failed.exception.outcome), (412, "conflict", "not_written"))
        now = t.get("a/b", at=entry.position)
        assert now is not None
        self.assertEqual((now.value, now.revision), (b"\x00\xff", 1))
        self.assertEqual(t.get("a/b", revision=1), entry)
        self.assertEqual(t.increment("n", 2**53 + 1), 2**53 + 1)
        self.assertEqual(t.increment("n", 1, idempotency_key="k"), 2**53 + 2)
        self.assertEqual(t.increment("n", 1, idempotency_key="k"), 2**53 + 2)
        for i in range(250):
            t.put(f"p{i:03}", str(i), ttl="1h")
        self.assertEqual([e.value for e in t.list("p")], [str(i).encode() for i in range(250)])
        self.assertEqual(t.delete("a/b"), 2)

    def test_events(self) -> None:
        s = self.m.events(self.unique)
        s.append("order-1", [{"type": "Placed", "data": {"n": i}} for i in range(150)], expected="none")
        events = list(s.load("order-1"))
        self.assertEqual([e.data["n"] for e in events], list(range(150)))
        with self.assertRaises(MainstemError) as failed:
            s.append("order-1", [{"type": "X"}], expected=7)
        self.assertEqual(failed.exception.problem["actual"], 150)
        feed = s.follow(after=events[10].position)
        self.assertEqual(next(feed).version, 12)
        feed.close()
        s.append("course-1", [{"type": "Left", "tags": ["student:ada", "course:c1"]}])
        feed = s.follow(tags=["course:c1", "student:ada"])
        left = next(feed)
        self.assertEqual((left.type, left.tags), ("Left", ("student:ada", "course:c1")))
        feed.close()

    def test_subscription(self) -> None:
        s = self.m.events(self.unique)
        sub = s.subscription("mailer")
        sub.put(select={"category": "order"}, maxRetry=1)
        s.append("order-1", [{"type": "Placed"}, {"type": "Paid"}])
        first, second = sub.claim("a", wait="5s")
        sub.ack(first)
        sub.nack(second, reason="later")
        (again,) = sub.claim("a")
        self.assertEqual((again.event.type, again.attempt), ("Paid", 2))
        with self.assertRaises(MainstemError) as failed:
            sub.ack(second)
        self.assertEqual(failed.exception.status, 409)
        sub.ack(again)

    def test_topic_and_commit(self) -> None:
        t = self.m.topic(self.unique)
        t.create(partitions=1)
        for _ in range(2):
            r = self.m.commit(id=self.unique, do=[{"topic.publish": {"topic": self.unique, "records": [{"key": "k", "text": "v"}]}}])
        self.assertTrue(r["duplicate"])
        t.publish({"key": "l", "json": {"n": 1}})
        self.assertEqual([(r["offset"], r["key"]) for r in t.read()], [("0", "k"), ("1", "l")])

    def test_claims_of_records(self) -> None:
        t = self.m.topic(self.unique)
        t.create(partitions=1)
        t.publish({"text": "a"}, {"text": "b"})
        g = t.group("senders")
        first, second = g.claim("one", wait="5s")
        g.ack(first)
        g.nack(second)
        (again,) = g.claim("two")
        self.assertEqual((again.record["text"], again.attempt), ("b", 2))
        with self.assertRaises(MainstemError) as failed:
            g.ack(second)
        self.assertEqual(failed.exception.status, 409)
        g.ack(again)
        self.assertEqual(g.offsets(), {0: 2})

    def test_server_that_is_not_there(self) -> None:
        with self.assertRaises(MainstemError) as failed:
            Mainstem("http://127.0.0.1:1", patience=0).table("t").put("k", "v")
        self.assertEqual((failed.exception.status, failed.exception.outcome), (0, "unknown"))


if __name__ == "__main__":
    unittest.main()
