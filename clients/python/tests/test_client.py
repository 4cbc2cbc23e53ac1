"""Tests of the client on a real server, whose URL is in MAINSTEM_URL.

    MAINSTEM_URL=http://127.0.0.1:8080 python3 -m unittest discover -s clients/python/tests
"""

import contextlib
import io
import os
import re
import sys
import threading
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from mainstem import Mainstem, MainstemError, Settings, Snapshot  # noqa: E402


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

    def test_many_keys(self) -> None:
        t = self.m.table(f"py/{self.unique}")
        for duplicate in (False, True):
            written = t.put_many([{"key": "a", "text": "1"}, {"key": "b/c", "base64": "AP8=", "ttl": "1h"}], idempotency_key=self.unique)
            self.assertEqual((written.revisions, written.duplicate), ((1, 1), duplicate))
        self.assertEqual([(e.key, e.value) for e in t.list()], [("a", b"1"), ("b/c", b"\x00\xff")])
        with self.assertRaises(MainstemError) as failed:
            t.put_many([{"key": "a", "text": "2"}, {"key": "b/c", "text": "2", "ifAbsent": True}])
        self.assertEqual((failed.exception.status, failed.exception.outcome), (409, "not_written"))
        entry = t.get("a")
        assert entry is not None
        self.assertEqual(entry.value, b"1")

    def test_watch(self) -> None:
        t = self.m.table(f"py/{self.unique}")
        t.put("other", "0")
        t.put("k/1", b"\xff")
        watch = t.watch("k/")
        first, synced = next(watch), next(watch)
        self.assertEqual((first.type, first.key, first.value, first.revision), ("put", "k/1", b"\xff", 1))
        self.assertEqual((synced.type, synced.key, synced.value), ("synced", "", None))
        t.put("k/1", "2")
        put = next(watch)
        t.delete("k/1")  # only now: a watch may pass over a value that was replaced before it was read
        gone = next(watch)
        self.assertEqual((put.type, put.value, put.revision), ("put", b"2", 2))
        self.assertEqual((gone.type, gone.key, gone.value, gone.revision), ("delete", "k/1", None, 3))
        watch.close()
        t.put("k/2", "3")
        watch = t.watch("k/", after=gone.position)
        after = next(watch)
        self.assertEqual((after.type, after.key, after.value), ("put", "k/2", b"3"))
        watch.close()

    def test_wait_for(self) -> None:
        t = self.m.table(f"py/{self.unique}")
        position = t.put_many([{"key": "k", "text": "old"}]).position
        read: list[bytes] = []

        def reader() -> None:
            entry = self.m.wait_for(position + 1).table(f"py/{self.unique}").get("k")
            read.append(entry.value if entry else b"")

        thread = threading.Thread(target=reader)
        thread.start()
        t.put("k", "new")
        thread.join()
        self.assertEqual(read, [b"new"])
        with self.assertRaises(MainstemError) as failed:
            self.m.wait_for(-1).table("py/t").get("k")
        self.assertEqual(failed.exception.status, 400)
        self.assertIn("Mainstem-Wait-For", str(failed.exception))

    def test_streams(self) -> None:
        s = self.m.events(self.unique)
        s.append("order-1", [{"type": "Placed"}, {"type": "Paid"}, {"type": "Sent"}])
        self.assertEqual(s.settings("order-1"), Settings())
        settings = Settings(100, "720h0m0s", {"owner": "ada"})
        s.put_settings("order-1", settings, idempotency_key=self.unique)
        self.assertEqual(s.settings("order-1"), settings)

        self.assertIsNone(s.snapshot("order-1"))
        snapshot = Snapshot(2, b"\x00\xff", "order.v1")
        s.put_snapshot("order-1", snapshot)
        self.assertEqual(s.snapshot("order-1"), snapshot)
        self.assertIsNone(s.snapshot("order-1", up_to=1))
        s.delete_snapshots("order-1")
        self.assertIsNone(s.snapshot("order-1"))

        s.truncate("order-1", before=3)
        self.assertEqual([e.version for e in s.load("order-1")], [3])
        s.archive("order-1")
        with self.assertRaises(MainstemError) as failed:
            s.append("order-1", [{"type": "Returned"}])
        self.assertEqual(failed.exception.status, 423)
        s.unarchive("order-1")
        s.append("order-1", [{"type": "Returned"}], expected=3)

        with self.assertRaises(MainstemError) as failed:
            s.delete("order-1", expected=7)
        self.assertEqual(failed.exception.status, 409)
        s.delete("order-1", expected=4)
        with self.assertRaises(MainstemError) as failed:
            next(s.load("order-1"))
        self.assertEqual(failed.exception.status, 404)
        self.assertEqual(s.append("order-1", [{"type": "Placed"}])["first"], 6)  # a deletion has a version, too
        s.delete("order-1", tombstone=True)
        with self.assertRaises(MainstemError) as failed:
            s.append("order-1", [{"type": "Placed"}])
        self.assertEqual(failed.exception.status, 423)
        s.append("order-2", [{"type": "Placed"}])
        s.delete("order-2", forget=True)
        with self.assertRaises(MainstemError) as failed:
            next(s.load("order-2"))
        self.assertEqual(failed.exception.status, 404)

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

    def test_parked_events(self) -> None:
        s = self.m.events(self.unique)
        sub = s.subscription("mailer")
        sub.put()
        s.append("order-1", [{"type": "Placed"}, {"type": "Paid"}])
        first, second = sub.claim("a", wait="5s")
        sub.nack(first, action="park", reason="no address")
        sub.ack(second)
        (parked,) = sub.parked()
        self.assertEqual((parked.stream, parked.version, parked.attempts, parked.reason), ("order-1", 1, 1, "no address"))
        self.assertEqual((parked.position, sub.info()["parked"]), (first.event.position, 1))
        self.assertEqual(sub.retry_parked(), (1, False))
        self.assertEqual(sub.parked(limit=5), [])
        (again,) = sub.claim("a", wait="5s")
        self.assertEqual(again.event, first.event)
        sub.reset(first.event.position)
        with self.assertRaises(MainstemError) as failed:
            sub.ack(again)
        self.assertEqual(failed.exception.status, 409)
        (after,) = sub.claim("a", wait="5s")
        self.assertEqual(after.event, second.event)
        sub.delete()
        with self.assertRaises(MainstemError) as failed:
            sub.info()
        self.assertEqual(failed.exception.status, 404)

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

    def test_readme(self) -> None:
        with open(os.path.join(os.path.dirname(__file__), "..", "README.md")) as f:
            blocks = re.findall(r"```python\n(.*?)```", f.read(), re.S)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("\n".join(blocks).replace("http://127.0.0.1:8080", self.m.url), {})
        want = ["-1", """42 b'{"name": "Ada"}'""", """43 b'{"name": "Bob"}'""", """b'{"name": "Eve"}'"""]
        self.assertEqual(printed.getvalue().splitlines(), want)

    def test_server_that_is_not_there(self) -> None:
        with self.assertRaises(MainstemError) as failed:
            Mainstem("http://127.0.0.1:1", patience=0).table("t").put("k", "v")
        self.assertEqual((failed.exception.status, failed.exception.outcome), (0, "unknown"))


if __name__ == "__main__":
    unittest.main()
