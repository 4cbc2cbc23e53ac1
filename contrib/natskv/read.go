package natskv

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Get returns the entry of key. A key without a value is NotFound, and so is
// every key of a bucket that does not exist. A value that the layout or the codec
// cannot read is Corrupt; then the entry is complete but for its value.
func (b *Bucket[T]) Get(ctx context.Context, key string) (kv.Entry[T], error) {
	if err := b.checkKey("get", key); err != nil {
		return kv.Entry[T]{}, err
	}
	if b.store.cacheBytes > 0 {
		if m, ok := b.peek(ctx, key); ok {
			if m.seq == 0 {
				return kv.Entry[T]{}, b.stream.fail("get", key, errDeleted)
			}
			return b.value(ctx, key, &m, true)
		}
	}
	full, token, err := b.locate("get", key)
	if err != nil {
		return kv.Entry[T]{}, err
	}
	m, err := b.stream.get(ctx, full, token)
	if err == nil && operation(m.header) != kv.OpUpdate {
		err = errDeleted
	}
	if err != nil {
		return kv.Entry[T]{}, b.stream.fail("get", key, err)
	}
	return b.value(ctx, key, &m, b.store.cacheBytes > 0)
}

// value is entry, with a value that lies in the object store brought here.
func (b *Bucket[T]) value(ctx context.Context, key string, m *message, shared bool) (kv.Entry[T], error) {
	if b.o.Large == LargeObjects && isReference(m.header) {
		return b.onload(ctx, key, m)
	}
	return b.entry("get", key, m, shared)
}

// peek asks the cache, and has it begun if it does not run.
func (b *Bucket[T]) peek(ctx context.Context, key string) (message, bool) {
	if m, ok := b.stream.index.peek(b.prefix + key); ok || b.stream.index.running() {
		return m, ok
	}
	if err := b.stream.index.begin(ctx); err != nil {
		return message{}, false // the server will say what is wrong
	}
	return message{}, false
}

// GetRevision returns the message of key that has a revision, which may be a
// deletion (see [kv.Entry.Live]). A revision that is no longer held, never was, or is that of
// another key, is NotFound.
func (b *Bucket[T]) GetRevision(ctx context.Context, key string, revision kv.Revision) (kv.Entry[T], error) {
	full, token, err := b.locate("get", key)
	if err != nil {
		return kv.Entry[T]{}, err
	}
	f, err := b.stream.find(ctx)
	if err != nil {
		return kv.Entry[T]{}, b.stream.fail("get", key, err)
	}
	m, err := b.stream.fetch(ctx, map[string]any{"seq": uint64(revision)})
	if err == nil && m.subject != b.stream.subject+token {
		err = errNoMessage
	}
	if err != nil {
		return kv.Entry[T]{}, b.stream.fail("get", key, err)
	}
	op := operation(m.header)
	b.stream.index.tell(f, full, delivery{seq: m.seq, time: m.time.UnixNano()}, op, ttlOf(m.header))
	if op != kv.OpUpdate {
		return b.entry("get", key, &m, false)
	}
	return b.value(ctx, key, &m, false)
}

// get returns the newest message of a key. It is not older than any that the store
// has written or seen.
func (s *stream) get(ctx context.Context, full, token string) (message, error) {
	f, err := s.find(ctx)
	if err != nil {
		return message{}, err
	}
	running := s.index.running()
	var before uint64
	if running {
		before, _ = s.index.newest(full)
	}
	m, err := s.getFrom(ctx, f, token, before)
	if !running {
		return m, err
	}
	switch {
	case err == nil:
		known := m // on the heap only where there is an index
		s.index.note(f, full, &known, operation(m.header), true)
	case errors.Is(err, errNoMessage) && before > 0:
		s.index.gone(f, full, before)
	}
	return m, err
}

// onlyLeader reports whether only the leader knows all that was acknowledged: replicas, and
// mirrors, which answer direct gets as well, may be behind.
func (s *stream) onlyLeader(f *facts) bool {
	return !f.direct || (f.replicas > 1 || s.mirrored.Load()) && !s.store.anyReplica
}

// getFrom asks a replica, or the leader if it must be: because only it knows all
// that was acknowledged, or the replica has not seen what is known here.
func (s *stream) getFrom(ctx context.Context, f *facts, token string, known uint64) (message, error) {
	if s.onlyLeader(f) {
		return s.fetchLeader(ctx, token)
	}
	m, err := s.getDirect(ctx, token)
	if isNoLeader(err) {
		m, err = s.getPatiently(ctx, token)
	}
	if s.onlyLeader(f) || known > 0 && (errors.Is(err, errNoMessage) || err == nil && m.seq < known) {
		return s.fetchLeader(ctx, token)
	}
	return m, err
}

// getDirect asks once for the newest message of a key.
func (s *stream) getDirect(ctx context.Context, token string) (message, error) {
	answer, _, err := s.store.calls.call(ctx, &request{subject: s.direct + token})
	if err != nil {
		return message{}, err
	}
	s.answeredBy(answer)
	return parseDirect(answer)
}

// answeredBy takes in whether a mirror has given an answer to a direct get. Servers without a
// cluster do not tell of mirrors otherwise.
func (s *stream) answeredBy(answer *nats.Msg) {
	if name := answer.Header[headerStream]; len(name) > 0 && name[0] != s.name && !s.mirrored.Load() {
		s.mirrored.Store(true)
	}
}

// getPatiently is getDirect for a bucket that had no leader when it was asked.
func (s *stream) getPatiently(ctx context.Context, token string) (m message, err error) {
	err = s.retry(ctx, func() error {
		m, err = s.getDirect(ctx, token)
		return err
	})
	return m, err
}

// fetchLeader returns the newest message of a key that the leader has.
func (s *stream) fetchLeader(ctx context.Context, token string) (message, error) {
	return s.fetch(ctx, map[string]any{"last_by_subj": s.subject + token})
}

// fetch asks the leader for one message.
func (s *stream) fetch(ctx context.Context, query map[string]any) (message, error) {
	in, err := json.Marshal(query)
	if err != nil {
		return message{}, err
	}
	var m message
	err = s.retry(ctx, func() error {
		answer, _, err := s.store.calls.call(ctx, &request{subject: s.store.api + "STREAM.MSG.GET." + s.name, data: in})
		if err != nil {
			return err
		}
		m, err = parseStored(answer.Data)
		return err
	})
	return m, err
}

// parseStored reads the leader's answer with one message.
func parseStored(data []byte) (message, error) {
	var in struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  string    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return message{}, fmt.Errorf("the answer %.100q is not JSON: %w", data, err)
	}
	if in.Error != nil {
		if in.Error.ErrCode == codeNoMessage {
			return message{}, errNoMessage
		}
		return message{}, in.Error
	}
	m := message{subject: in.Message.Subject, seq: in.Message.Seq, time: in.Message.Time, data: in.Message.Data}
	if in.Message.Header == "" {
		return m, nil
	}
	raw, err := base64.StdEncoding.DecodeString(in.Message.Header)
	if err == nil {
		m.header, err = nats.DecodeHeadersMsg(raw)
	}
	return m, err
}

// Sync waits until List shows everything that was written to the bucket, by
// anyone, before the call. Without it, List shows at least what this store has
// written or read, and of other writers what happened more than MaxStale ago. A
// bucket that does not exist has nothing to show.
func (b *Bucket[T]) Sync(ctx context.Context) error {
	err := b.stream.sync(ctx)
	if errors.Is(err, errNoBucket) {
		return nil
	}
	if err != nil {
		return b.stream.fail("sync", "", err)
	}
	return nil
}

// syncPatience is how long sync waits for one message before it asks again whether
// it is still there.
const syncPatience = 200 * time.Millisecond

func (s *stream) sync(ctx context.Context) error {
	if err := s.index.ready(ctx); err != nil {
		return err
	}
	var info *streamInfo
	err := s.retry(ctx, func() (err error) {
		info, err = s.info(ctx)
		return err
	})
	if err != nil {
		return err
	}
	last := time.Now()
	for before := uint64(0); ; {
		applied := s.index.progress()
		if applied >= info.State.LastSeq {
			break
		}
		if applied > before {
			before, last = applied, time.Now()
		} else if time.Since(last) > s.store.calls.timeout {
			return fmt.Errorf("the index of the bucket stays at %d: %w", applied, errTimeout)
		}
		// The last messages may have been removed since: what counts is those that are there.
		m, err := s.fetch(ctx, map[string]any{"seq": applied + 1, "next_by_subj": s.subject + ">"})
		if errors.Is(err, errNoMessage) || err == nil && m.seq > info.State.LastSeq {
			break
		}
		if err != nil {
			return err
		}
		one, cancel := context.WithTimeout(ctx, syncPatience)
		err = s.index.await(one, "sync", func() bool { return s.index.state == indexReady && s.index.applied >= m.seq })
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return s.index.await(ctx, "sync", func() bool { return s.index.state == indexReady })
}

// GetMany returns the entries of keys, in their order. A key without a value has an
// entry with nothing but its Key; see [kv.Entry.Live]. Up to 1,024 different keys
// are those of one moment; more are fetched in portions, and so are values of more than 16 MiB
// together and keys of more than 256 KiB. Values of the cache, and those of a bucket with
// replicas or mirrors, have each a moment of their own. A value that cannot be read is Corrupt.
func (b *Bucket[T]) GetMany(ctx context.Context, keys ...string) ([]kv.Entry[T], error) {
	if len(keys) == 0 {
		return nil, nil
	}
	messages, shared, err := b.getMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	entries := make([]kv.Entry[T], len(keys))
	for i, key := range keys {
		m := messages[i]
		if m == nil || operation(m.header) != kv.OpUpdate {
			entries[i].Key = key
			continue
		}
		if entries[i], err = b.value(ctx, key, m, shared); err != nil {
			if errors.Is(err, mainstem.ErrNotFound) { // its object was removed meanwhile
				entries[i] = kv.Entry[T]{Key: key}
				continue
			}
			return nil, err
		}
	}
	return entries, nil
}
