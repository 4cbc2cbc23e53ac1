"""Client of a Mainstem server. It needs nothing but Python 3.10.

    from mainstem import Mainstem

    m = Mainstem("http://127.0.0.1:8080")
    users = m.table("app/users")
    users.put("42", b'{"name":"Ada"}')
    m.commit(id="order-7", do=[
        {"kv.increment": {"table": "app/stock", "key": "book", "by": -1}},
        {"event.append": {"store": "shop", "stream": "order-7", "events": [{"type": "Placed"}]}},
    ])

A request that has an idempotency key (``id`` of a commit) is sent again when the connection breaks,
or the server says that it may succeed later, for up to ``patience`` seconds: it is made once. Reads
are sent again, too; other writes are not. Errors are ``MainstemError``.

A client may be used by several threads: each call opens a connection of its own. What the paths
and fields mean is in docs/http.md of Mainstem, and in /v1/openapi.yaml of a server.
"""

from __future__ import annotations

import base64
import copy
import http.client
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

__all__ = [
    "Change", "Claimed", "ClaimedRecord", "Entry", "Event", "Group", "Mainstem", "MainstemError", "Parked", "Settings", "Snapshot", "Store",
    "Subscription", "Table", "Topic", "Written",
]

Expected = Union[str, int]  # "any", "none", "exists", or a version


class MainstemError(Exception):
    """An error of the server (RFC 9457), or that none answered: then ``status`` is 0."""

    def __init__(self, status: int, problem: Mapping[str, Any]):
        self.status = status
        self.problem = dict(problem)
        self.kind: str = problem.get("kind", "unavailable")
        self.outcome: str = problem.get("outcome", "")  # of a write: "not_written" is certain
        super().__init__(f"{status} {self.kind}: {problem.get('detail', '')}")


@dataclass(frozen=True)
class Entry:
    """A revision of a key."""

    key: str
    value: bytes
    revision: int
    position: int


@dataclass(frozen=True)
class Written:
    """What a write of many keys gave: a revision for each, and the position of the last."""

    revisions: tuple[int, ...]
    position: int
    duplicate: bool


@dataclass(frozen=True)
class Change:
    """What a watch shows: "put", "delete", "purge" or "expire" of a key, or "synced", which has only a position and comes
    after the values that were there. Only a put has a value."""

    type: str
    key: str
    value: Optional[bytes]
    revision: int
    position: int


@dataclass(frozen=True)
class Event:
    """An event of a stream. ``data`` is the decoded JSON, a text, or bytes."""

    stream: str
    version: int
    position: int
    type: str
    data: Any
    id: str
    tags: tuple[str, ...] = ()

    @staticmethod
    def of(e: Mapping[str, Any]) -> "Event":
        data = e.get("data", e.get("text"))
        if "data64" in e:
            data = base64.b64decode(e["data64"])
        return Event(e["stream"], e["version"], int(e["position"]), e["type"], data, e["id"], tuple(e.get("tags", ())))


@dataclass(frozen=True)
class Settings:
    """What a stream keeps; 0 and "" are no limit. max_age is a duration such as "720h"."""

    max_count: int = 0
    max_age: str = ""
    custom: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """The state of a stream that contains its events up to a version. type says in which form it is."""

    version: int
    data: bytes
    type: str = ""


@dataclass(frozen=True)
class Parked:
    """An event that a subscription has put aside. time is when, in RFC 3339."""

    stream: str
    version: int
    position: int
    attempts: int
    reason: str
    time: str


@dataclass(frozen=True)
class Claimed:
    """An event that a subscription has handed out."""

    token: str
    attempt: int
    event: Event


class Mainstem:
    """The views of one server."""

    def __init__(self, url: str, token: Optional[str] = None, timeout: float = 60, patience: float = 60):
        self.url = url.rstrip("/")
        self.token = token
        self.timeout = timeout
        self.patience = patience
        self.headers: dict[str, str] = {}  # of every request

    def wait_for(self, position: int) -> "Mainstem":
        """A client whose requests wait until their server has come to a position that another server of the same log has
        answered. After 30 s that is a MainstemError 504."""
        waiting = copy.copy(self)
        waiting.headers = {**self.headers, "Mainstem-Wait-For": str(position)}
        return waiting

    def table(self, name: str) -> "Table":
        """The table "database/table"."""
        return Table(self, name)

    def events(self, store: str) -> "Store":
        """The event store."""
        return Store(self, store)

    def topic(self, name: str) -> "Topic":
        """The topic."""
        return Topic(self, name)

    def commit(
        self, do: Sequence[Mapping[str, Any]], if_: Sequence[Mapping[str, Any]] = (), id: Optional[str] = None
    ) -> dict[str, Any]:
        """One commit over all views: everything in ``do`` or nothing, and only if all of ``if_`` holds."""
        body = {"do": list(do), "if": list(if_)}
        return json.loads(self.request("POST", "/v1/commit", json.dumps(body).encode(), key=id)[1])

    def request(
        self,
        method: str,
        path: str,
        body: Optional[bytes] = None,
        query: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
    ) -> tuple[Mapping[str, str], bytes]:
        """Send one request. ``key`` is an idempotency key. Returns the headers and the body."""
        head = dict(headers or {})
        if key is not None:
            head["Idempotency-Key"] = key
        safe = method == "GET" or key is not None
        until = time.monotonic() + self.patience
        pause = 0.05
        while True:
            try:
                with self._open(method, path, body, query, head) as answer:
                    return answer.headers, answer.read()
            except MainstemError as e:
                if not safe or e.status not in (0, 503) or time.monotonic() > until:
                    raise
            time.sleep(pause * (0.5 + random.random() / 2))
            pause = min(2 * pause, 1.0)

    def follow(self, path: str, query: Optional[Mapping[str, Any]] = None, last_id: Optional[str] = None) -> Iterator[tuple[str, str, Any]]:
        """Server-sent events as (id, type, data), until the connection ends. Where it ends, go on with
        the last id."""
        headers = {"Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        with self._open("GET", path, None, query, headers) as answer:
            id_, type_, data = "", "message", ""
            for raw in answer:
                name, _, value = raw.decode().rstrip("\n").partition(":")
                value = value.removeprefix(" ")
                if name == "" and value == "" and data:
                    if type_ == "error":
                        problem = json.loads(data)
                        raise MainstemError(problem["status"], problem)
                    yield id_, type_, json.loads(data)
                    id_, type_, data = "", "message", ""
                elif name == "id":
                    id_ = value
                elif name == "event":
                    type_ = value
                elif name == "data":
                    data = value

    def _open(self, method: str, path: str, body: Optional[bytes], query: Optional[Mapping[str, Any]], headers: Mapping[str, str]):
        url = self.url + path
        given = {k: v for k, v in (query or {}).items() if v is not None and v is not False}
        if given:
            url += "?" + urllib.parse.urlencode({k: "true" if v is True else v for k, v in given.items()}, doseq=True)
        r = urllib.request.Request(url, data=body, method=method, headers={**self.headers, **headers})
        if self.token:
            r.add_header("Authorization", "Bearer " + self.token)
        try:
            return urllib.request.urlopen(r, timeout=self.timeout)
        except urllib.error.HTTPError as e:
            with e:
                text = e.read()
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {"detail": text.decode(errors="replace")}
            raise MainstemError(e.code, problem) from None
        except (OSError, http.client.HTTPException) as e:
            raise MainstemError(0, {"kind": "unavailable", "outcome": "unknown", "detail": str(e)}) from e


def _segment(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _key(e: Mapping[str, Any]) -> str:
    return e["key"] if "key" in e else base64.b64decode(e["key64"]).decode(errors="surrogateescape")


class Table:
    """A table of keys and values."""

    def __init__(self, client: Mainstem, name: str):
        database, slash, table = name.partition("/")
        if not slash:
            database, table = "default", name
        self.client = client
        self.path = f"/v1/kv/{_segment(database)}/{_segment(table)}"

    def get(self, key: str, revision: Optional[int] = None, at: Union[int, str, None] = None) -> Optional[Entry]:
        """The entry of a key, None if it has no value: the newest, a revision, or as it was at a position or a time such as
        "2026-01-31T12:00:00Z". What the table does not keep any more is a MainstemError 410."""
        try:
            h, body = self.client.request("GET", self.path + "/by-key", query={"key": key, "revision": revision, "at": at})
        except MainstemError as e:
            if e.status == 404:
                return None
            raise
        return Entry(key, body, int(h["Mainstem-Revision"]), int(h["Mainstem-Position"]))

    def put(
        self,
        key: str,
        value: Union[bytes, str],
        ttl: Optional[str] = None,
        if_revision: Optional[int] = None,
        if_absent: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> int:
        """Write a value, and return its revision. A condition that does not hold is a MainstemError 412."""
        headers = {"Content-Type": "application/octet-stream"}
        if ttl is not None:
            headers["Mainstem-TTL"] = ttl
        if if_revision is not None:
            headers["If-Match"] = f'"{if_revision}"'
        if if_absent:
            headers["If-None-Match"] = "*"
        data = value.encode() if isinstance(value, str) else value
        _, body = self.client.request("PUT", self.path + "/by-key", data, {"key": key}, headers, idempotency_key)
        return json.loads(body)["revision"]

    def put_many(self, entries: Sequence[Mapping[str, Any]], idempotency_key: Optional[str] = None) -> Written:
        """Write many keys in one commit: {"key": …, "json" or "text" or "base64": …}, with "ttl", "metadata", and one of
        "ifRevision", "ifAbsent", "ifExists". A condition that does not hold is a MainstemError 409, and nothing is written."""
        answer = json.loads(self.client.request("POST", self.path, json.dumps(list(entries)).encode(), key=idempotency_key)[1])
        return Written(tuple(answer["revisions"]), int(answer["position"]), answer["duplicate"])

    def delete(self, key: str, purge: bool = False) -> int:
        """Delete a key, and return the revision of its deletion, 0 if it had no value."""
        return json.loads(self.client.request("DELETE", self.path + "/by-key", query={"key": key, "purge": purge})[1])["revision"]

    def increment(self, key: str, by: int = 1, idempotency_key: Optional[str] = None) -> int:
        """Add to a counter, and return the sum."""
        body = json.dumps({"by": str(by)}).encode()
        _, answer = self.client.request("POST", self.path + "/by-key", body, {"key": key, "op": "increment"}, key=idempotency_key)
        return int(json.loads(answer)["value"])

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """All entries whose keys begin with prefix, page by page."""
        after: Mapping[str, str] = {}
        while True:
            page = json.loads(self.client.request("GET", self.path, query={"prefix": prefix, "as": "base64", **after})[1])
            for e in page["entries"]:
                yield Entry(_key(e), base64.b64decode(e["base64"]), e["revision"], int(e["position"]))
            if "next" in page:
                after = {"after": page["next"]}
            elif "next64" in page:
                after = {"after64": page["next64"]}
            else:
                return


    def watch(self, prefix: str = "", after: Optional[int] = None) -> Iterator[Change]:
        """The values of the keys that begin with prefix, then a change "synced", then every change, until the connection
        ends. Where it ends, go on after the position of the last change from "synced" on: then only what changed since
        comes. What the table does not keep any more is a MainstemError 410."""
        query = {"prefix": prefix or None, "as": "base64"}
        for _, type_, e in self.client.follow(self.path, query, None if after is None else str(after)):
            if type_ == "synced":
                yield Change(type_, "", None, 0, int(e["position"]))
                continue
            value = base64.b64decode(e["base64"]) if type_ == "put" else None
            yield Change(type_, _key(e), value, e["revision"], int(e["position"]))


class Store:
    """An event store."""

    def __init__(self, client: Mainstem, name: str):
        self.client = client
        self.path = "/v1/events/" + _segment(name)

    def _stream(self, name: str) -> str:
        return f"{self.path}/streams/{_segment(name)}"

    def append(
        self, stream: str, events: Sequence[Mapping[str, Any]], expected: Expected = "any", idempotency_key: Optional[str] = None
    ) -> dict[str, Any]:
        """Append events to a stream: {"type": …, "data": …, "tags": […]}. 409 if it is not as expected."""
        _, body = self.client.request(
            "POST", self._stream(stream), json.dumps(list(events)).encode(), None,
            {"Expected-Version": str(expected)}, idempotency_key,
        )
        return json.loads(body)

    def load(self, stream: str, from_: int = 1) -> Iterator[Event]:
        """The events of a stream, oldest first, page by page."""
        while True:
            page = json.loads(self.client.request("GET", self._stream(stream), query={"from": from_})[1])
            yield from (Event.of(e) for e in page["events"])
            if "next" not in page:
                return
            from_ = page["next"]

    def follow(self, after: Optional[int] = None, category: Optional[str] = None, tags: Sequence[str] = ()) -> Iterator[Event]:
        """All events of the store, or those of a category or with all of some tags, and those that come, until the connection
        ends."""
        for _, _, data in self.client.follow(self.path + "/feed", {"category": category, "tag": list(tags)}, None if after is None else str(after)):
            yield Event.of(data)

    def delete(
        self, stream: str, expected: Expected = "any", tombstone: bool = False, forget: bool = False, idempotency_key: Optional[str] = None
    ) -> None:
        """Delete a stream; with tombstone so that it never begins again, with forget without a trace, whatever is expected."""
        headers = {} if expected == "any" else {"Expected-Version": str(expected)}
        query = {"tombstone": tombstone, "forget": forget}
        self.client.request("DELETE", self._stream(stream), query=query, headers=headers, key=idempotency_key)

    def archive(self, stream: str, idempotency_key: Optional[str] = None) -> None:
        """Make a stream read-only, and hide it from lists and feeds."""
        self.client.request("POST", self._stream(stream), query={"op": "archive"}, key=idempotency_key)

    def unarchive(self, stream: str, idempotency_key: Optional[str] = None) -> None:
        """Undo archive."""
        self.client.request("POST", self._stream(stream), query={"op": "unarchive"}, key=idempotency_key)

    def truncate(self, stream: str, before: int, idempotency_key: Optional[str] = None) -> None:
        """Remove the events before a version."""
        self.client.request("POST", self._stream(stream), query={"op": "truncate", "before": before}, key=idempotency_key)

    def settings(self, stream: str) -> Settings:
        """The settings of a stream."""
        s = json.loads(self.client.request("GET", self._stream(stream) + "/settings")[1])
        return Settings(s.get("maxCount", 0), s.get("maxAge", ""), s.get("custom", {}))

    def put_settings(self, stream: str, settings: Settings, idempotency_key: Optional[str] = None) -> None:
        """Replace the settings of a stream."""
        body = {"maxCount": settings.max_count, "maxAge": settings.max_age, "custom": dict(settings.custom)}
        self.client.request("PUT", self._stream(stream) + "/settings", json.dumps(body).encode(), key=idempotency_key)

    def snapshot(self, stream: str, up_to: Optional[int] = None) -> Optional[Snapshot]:
        """The newest snapshot of a stream, or the newest of a version up to up_to; None if there is none."""
        try:
            h, body = self.client.request("GET", self._stream(stream) + "/snapshot", query={"upTo": up_to})
        except MainstemError as e:
            if e.status == 404:
                return None
            raise
        return Snapshot(int(h["Mainstem-Version"]), body, h.get("Mainstem-Type", ""))

    def put_snapshot(self, stream: str, snapshot: Snapshot, idempotency_key: Optional[str] = None) -> None:
        """Save a snapshot of a stream."""
        headers = {"Mainstem-Version": str(snapshot.version), "Content-Type": "application/octet-stream"}
        if snapshot.type:
            headers["Mainstem-Type"] = snapshot.type
        self.client.request("PUT", self._stream(stream) + "/snapshot", snapshot.data, None, headers, idempotency_key)

    def delete_snapshots(self, stream: str) -> None:
        """Delete the snapshots of a stream."""
        self.client.request("DELETE", self._stream(stream) + "/snapshot")

    def subscription(self, name: str) -> "Subscription":
        """The subscription of that name; make it with put."""
        return Subscription(self.client, f"{self.path}/subscriptions/{_segment(name)}")


class Subscription:
    """Events that are handed to consumers, which confirm each."""

    def __init__(self, client: Mainstem, path: str):
        self.client = client
        self.path = path

    def put(self, **spec: Any) -> dict[str, Any]:
        """Make or change it: select, strategy, messageTimeout, maxRetry, buffer."""
        return json.loads(self.client.request("PUT", self.path, json.dumps(spec).encode())[1])

    def claim(self, consumer: str, max: int = 10, wait: str = "0s") -> list[Claimed]:
        """Take events to handle."""
        body = json.dumps({"consumer": consumer, "max": max, "wait": wait}).encode()
        found = json.loads(self.client.request("POST", self.path + "/claim", body)[1])["events"]
        return [Claimed(c["token"], c["attempt"], Event.of(c["event"])) for c in found]

    def ack(self, *claimed: Claimed) -> None:
        """Confirm events."""
        self.client.request("POST", self.path + "/ack", json.dumps({"tokens": [c.token for c in claimed]}).encode())

    def nack(self, *claimed: Claimed, action: str = "retry", reason: str = "") -> None:
        """Give events back: retry, park, skip or stop."""
        body = {"tokens": [c.token for c in claimed], "action": action, "reason": reason}
        self.client.request("POST", self.path + "/nack", json.dumps(body).encode())

    def info(self) -> dict[str, Any]:
        """What it is and how far: position, last, claimed, waiting, parked, consumers, and stopped if it is."""
        return json.loads(self.client.request("GET", self.path)[1])

    def parked(self, limit: Optional[int] = None) -> list[Parked]:
        """The oldest events that are parked."""
        found = json.loads(self.client.request("GET", self.path + "/parked", query={"limit": limit})[1])["parked"]
        return [Parked(p["stream"], p["version"], int(p["position"]), p["attempts"], p["reason"], p["time"]) for p in found]

    def retry_parked(self) -> tuple[int, bool]:
        """Hand out parked events again. Returns how many, and whether there are more than the buffer takes."""
        answer = json.loads(self.client.request("POST", self.path + "/retry-parked")[1])
        return answer["retried"], answer["more"]

    def reset(self, position: int = 0) -> dict[str, Any]:
        """Begin after a position, and return what info does. Claims from before count for nothing."""
        return json.loads(self.client.request("POST", self.path + "/reset", query={"position": position})[1])

    def delete(self) -> None:
        """Delete it with what it has parked."""
        self.client.request("DELETE", self.path)


class Topic:
    """A topic, as clients of Kafka see it."""

    def __init__(self, client: Mainstem, name: str):
        self.client = client
        self.path = "/v1/topics/" + _segment(name)

    def create(self, partitions: int = 1, **config: str) -> dict[str, Any]:
        """Create the topic unless it is there, as asked."""
        return json.loads(self.client.request("PUT", self.path, json.dumps({"partitions": partitions, "config": config}).encode())[1])

    def publish(self, *records: Mapping[str, Any], idempotency_key: Optional[str] = None) -> list[dict[str, Any]]:
        """Publish records: {"key": …, "json" or "text" or "base64": …}."""
        return json.loads(self.client.request("POST", self.path, json.dumps(records).encode(), key=idempotency_key)[1])["batches"]

    def read(self, partition: int = 0, offset: int = 0) -> Iterator[dict[str, Any]]:
        """The records of a partition, up to its end."""
        while True:
            page = json.loads(self.client.request("GET", self.path, query={"partition": partition, "offset": offset})[1])
            yield from page["records"]
            if int(page["next"]) >= int(page["end"]) or not page["records"]:
                return
            offset = int(page["next"])

    def group(self, name: str) -> "Group":
        """The consumer group of that name."""
        return Group(self.client, f"{self.path}/groups/{_segment(name)}")


@dataclass(frozen=True)
class ClaimedRecord:
    """A record that was handed out: the token confirms it, attempt counts how often it has come."""

    token: str
    attempt: int
    record: dict[str, Any]


class Group:
    """Records of a topic that are handed to consumers, which confirm each."""

    def __init__(self, client: Mainstem, path: str):
        self.client = client
        self.path = path

    def claim(self, consumer: str, max: int = 10, wait: str = "0s", message_timeout: str = "30s") -> list[ClaimedRecord]:
        """Take records to handle. One that is not confirmed within message_timeout comes again."""
        body = json.dumps({"consumer": consumer, "max": max, "wait": wait, "messageTimeout": message_timeout}).encode()
        found = json.loads(self.client.request("POST", self.path + "/claim", body)[1])["records"]
        return [ClaimedRecord(c["token"], c["attempt"], c["record"]) for c in found]

    def ack(self, *claimed: ClaimedRecord) -> None:
        """Confirm records."""
        self.client.request("POST", self.path + "/ack", json.dumps({"tokens": [c.token for c in claimed]}).encode())

    def nack(self, *claimed: ClaimedRecord, action: str = "retry") -> None:
        """Give records back: retry or skip."""
        body = {"tokens": [c.token for c in claimed], "action": action}
        self.client.request("POST", self.path + "/nack", json.dumps(body).encode())

    def offsets(self) -> dict[int, int]:
        """Where the group goes on, by partition."""
        found = json.loads(self.client.request("GET", self.path)[1])["offsets"]
        return {o["partition"]: int(o["offset"]) for o in found}
