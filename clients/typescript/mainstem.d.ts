/** A counter or position: a text of digits, because it may be above 2^53. */
export type Digits = string;
/** What an append expects of its stream. */
export type Expected = "any" | "none" | "exists" | number;

/** Bytes in JSON: one of these. */
export interface Value {
  json?: unknown;
  text?: string;
  base64?: string;
}
export interface NewEvent {
  id?: string;
  type: string;
  data?: unknown;
  text?: string;
  data64?: string;
  contentType?: string;
  tags?: string[];
  metadata?: { correlationId?: string; causationId?: string; userId?: string; tenantId?: string; custom?: Record<string, string> };
}
export interface Event extends NewEvent {
  id: string;
  stream: string;
  version: number;
  position: Digits;
  time: string;
}
export interface NewRecord extends Value {
  key?: string;
  key64?: string;
  partition?: number;
  time?: string;
  headers?: ({ name: string } & Value)[];
}
export interface TopicRecord extends NewRecord {
  offset: Digits;
  partition: number;
}
export interface Entry {
  key: string;
  value: Uint8Array;
  revision: number;
  position: Digits;
}
/** One write of putMany. */
export interface Pair extends Value {
  key?: string;
  key64?: string;
  /** such as "30m" */
  ttl?: string;
  metadata?: Record<string, string>;
  ifRevision?: number;
  ifAbsent?: boolean;
  ifExists?: boolean;
}
/** What a watch shows: first the values, then "synced", then every change. Only a put has a value. */
export type Change =
  | { type: "put"; key: string; value: Uint8Array; revision: number; position: Digits }
  | { type: "delete" | "purge" | "expire"; key: string; value: undefined; revision: number; position: Digits }
  | { type: "synced"; position: Digits };
/** What a stream keeps. */
export interface Settings {
  maxCount?: number;
  /** such as "720h" */
  maxAge?: string;
  custom?: Record<string, string>;
}
/** The state of a stream that contains its events up to a version; type says in which form it is. */
export interface Snapshot {
  version: number;
  type: string;
  data: Uint8Array;
}
/** An event that a subscription has put aside. */
export interface Parked {
  stream: string;
  version: number;
  position: Digits;
  attempts: number;
  reason: string;
  time: string;
}
/** A subscription, and how far it is: everything up to position is done or parked. */
export interface SubscriptionInfo {
  name: string;
  select: { category?: string; types?: string[]; streams?: string[] };
  strategy: "round_robin" | "pinned" | "single";
  messageTimeout: string;
  maxRetry: number;
  buffer: number;
  position: Digits;
  last: Digits;
  claimed: number;
  waiting: number;
  parked: number;
  consumers: number;
  /** the reason, if it hands out nothing until the next put */
  stopped?: string;
}
export interface Claimed {
  token: string;
  attempt: number;
  event: Event;
}
export interface ClaimedRecord {
  token: string;
  attempt: number;
  record: TopicRecord;
}
/** One thing that a commit does. It has one of these. */
export interface Action {
  "kv.put"?: { table: string; key?: string; key64?: string; ttl?: string; metadata?: Record<string, string>; ifRevision?: number; ifAbsent?: boolean; ifExists?: boolean } & Value;
  "kv.delete"?: { table: string; key?: string; key64?: string; purge?: boolean; ifRevision?: number; ifExists?: boolean };
  "kv.increment"?: { table: string; key?: string; key64?: string; by: number | Digits; ttl?: string };
  "event.append"?: { store: string; stream: string; expected?: Expected; events: NewEvent[] };
  "topic.publish"?: { topic: string; records: NewRecord[] };
  "topic.offset"?: { topic: string; group: string; partition: number; offset: number | Digits };
  "alert.insert"?: { table: string; values: Record<string, string | number | boolean> };
}
/** What must hold, or nothing of a commit is written. It has one of these. */
export interface Condition {
  kv?: { table: string; key?: string; key64?: string; revision?: number; absent?: boolean; exists?: boolean };
  event?: { store: string; stream: string; expected: Expected };
}
export interface Result {
  revision?: number;
  position?: Digits;
  value?: Digits;
  first?: number;
  last?: number;
  firstPosition?: Digits;
  lastPosition?: Digits;
  batches?: { partition: number; base: Digits; next: Digits }[];
}
export interface Committed {
  first: Digits;
  last: Digits;
  time: string;
  duplicate: boolean;
  results: Result[];
}

/** An error of the server (RFC 9457), or that none answered: then status is 0. */
export class MainstemError extends Error {
  readonly status: number;
  readonly kind: string;
  /** Of a write: "not_written" is certain. */
  readonly outcome: string;
  readonly problem: Record<string, unknown>;
}

/** The views of one server. */
export class Mainstem {
  constructor(url: string, options?: { token?: string; /** for one request, in ms */ timeout?: number; /** how long requests are sent again, in ms */ patience?: number });
  /** A client whose requests wait until their server has come to a position that another server of the same log has answered. After 30 s that is an error 504. */
  waitFor(position: Digits | number | bigint): Mainstem;
  table(name: string): Table;
  events(store: string): Store;
  topic(name: string): Topic;
  /** One commit over all views: all of it or nothing. With an id it is made once, however often it is sent. */
  commit(commit: { id?: string; if?: Condition[]; do?: Action[] }): Promise<Committed>;
  request(method: string, path: string, options?: { query?: Record<string, unknown>; headers?: Record<string, string>; body?: string | Uint8Array; key?: string }): Promise<Response>;
  /** Server-sent events, until the connection ends. */
  follow(path: string, options?: { query?: Record<string, unknown>; lastId?: string }): AsyncGenerator<{ id: string; type: string; data: any }>;
}

/** A table of keys and values, "database/table". */
export interface Table {
  /** The newest entry, a revision, or as it was at a position or a time such as "2026-01-31T12:00:00Z". */
  get(key: string, options?: { revision?: number; at?: Digits }): Promise<Entry | undefined>;
  put(key: string, value: string | Uint8Array, options?: { ttl?: string; ifRevision?: number; ifAbsent?: boolean; idempotencyKey?: string }): Promise<number>;
  /** Writes many keys in one commit. A condition that does not hold is an error 409, and nothing is written. */
  putMany(entries: Pair[], options?: { idempotencyKey?: string }): Promise<{ revisions: number[]; position: Digits; duplicate: boolean }>;
  delete(key: string, options?: { purge?: boolean }): Promise<number>;
  increment(key: string, by?: number | bigint, options?: { idempotencyKey?: string }): Promise<bigint>;
  list(prefix?: string): AsyncGenerator<Entry>;
  /** The values, "synced", and every change, until the connection ends. Where it ends, go on after the position of the last change from "synced" on. */
  watch(options?: { prefix?: string; after?: Digits }): AsyncGenerator<Change>;
}

/** An event store. */
export interface Store {
  append(stream: string, events: NewEvent[], options?: { expected?: Expected; idempotencyKey?: string }): Promise<{ first: number; last: number; firstPosition: Digits; lastPosition: Digits; duplicate: boolean }>;
  load(stream: string, from?: number): AsyncGenerator<Event>;
  follow(options?: { after?: Digits; category?: string; tags?: string[] }): AsyncGenerator<Event>;
  /** Deletes a stream; with tombstone so that it never begins again, with forget without a trace, whatever is expected. */
  delete(stream: string, options?: { expected?: Expected; tombstone?: boolean; forget?: boolean; idempotencyKey?: string }): Promise<void>;
  /** Makes a stream read-only, and hides it from lists and feeds. */
  archive(stream: string, options?: { idempotencyKey?: string }): Promise<void>;
  unarchive(stream: string, options?: { idempotencyKey?: string }): Promise<void>;
  /** Removes the events before a version. */
  truncate(stream: string, before: number, options?: { idempotencyKey?: string }): Promise<void>;
  settings(stream: string): Promise<Settings>;
  putSettings(stream: string, settings: Settings, options?: { idempotencyKey?: string }): Promise<void>;
  /** The newest snapshot, or the newest of a version up to upTo. */
  snapshot(stream: string, options?: { upTo?: number }): Promise<Snapshot | undefined>;
  putSnapshot(stream: string, snapshot: { version: number; type?: string; data: string | Uint8Array }, options?: { idempotencyKey?: string }): Promise<void>;
  deleteSnapshots(stream: string): Promise<void>;
  subscription(name: string): Subscription;
}

/** Events that are handed to consumers, which confirm each. */
export interface Subscription {
  put(spec: { select?: { category?: string; types?: string[]; streams?: string[] }; from?: Digits; strategy?: "round_robin" | "pinned" | "single"; messageTimeout?: string; maxRetry?: number; buffer?: number }): Promise<SubscriptionInfo>;
  claim(consumer: string, options?: { max?: number; wait?: string }): Promise<Claimed[]>;
  ack(...claimed: Claimed[]): Promise<void>;
  nack(claimed: Claimed[], action?: "retry" | "park" | "skip" | "stop", reason?: string): Promise<void>;
  info(): Promise<SubscriptionInfo>;
  /** The oldest events that are parked. */
  parked(options?: { limit?: number }): Promise<Parked[]>;
  /** Hands out parked events again: how many, and whether there are more than the buffer takes. */
  retryParked(): Promise<{ retried: number; more: boolean }>;
  /** Begins after a position. Claims from before count for nothing. */
  reset(position?: Digits | number): Promise<SubscriptionInfo>;
  /** Deletes it with what it has parked. */
  delete(): Promise<void>;
}

/** A topic, as clients of Kafka see it. */
export interface Topic {
  create(spec?: { partitions?: number; config?: Record<string, string> }): Promise<Record<string, unknown>>;
  publish(records: NewRecord[], options?: { idempotencyKey?: string }): Promise<{ partition: number; base: Digits; next: Digits }[]>;
  read(partition?: number, offset?: number | Digits): AsyncGenerator<TopicRecord>;
  group(name: string): Group;
}

/** Records of a topic that are handed to consumers, which confirm each. */
export interface Group {
  claim(consumer: string, options?: { max?: number; wait?: string; messageTimeout?: string }): Promise<ClaimedRecord[]>;
  ack(...claimed: ClaimedRecord[]): Promise<void>;
  nack(claimed: ClaimedRecord[], action?: "retry" | "skip"): Promise<void>;
  offsets(): Promise<{ partition: number; offset: Digits }[]>;
}
