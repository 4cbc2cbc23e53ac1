package event

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// jetStream is an event store in a stream of JetStream, a subject for each stream.
func jetStream(name string, server suite.Server, d suite.Durability) event.Factory {
	return event.Factory{
		Name: "nats-jetstream-" + name, Durability: d, Transport: suite.LoopbackTCP, ScaleEvents: slowScale, Restarts: true,
		Note: "nats.go: a subject for each stream, the version in a header, the expected sequence of the subject; batches are atomic publishes; reads are batched direct gets",
		Open: func(ctx context.Context, env *suite.Env, dir string) (event.Store, error) {
			conn, stop, err := peers.DialNATS(ctx, env, server, dir)
			if err != nil {
				return nil, err
			}
			s := &jetStore{conn: conn, stop: stop, seed: maphash.MakeSeed()}
			if err := s.open(ctx); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return s, nil
		},
	}
}

const (
	jetName    = "EVENTS"
	jetPrefix  = "events."
	jetDirect  = "$JS.API.DIRECT.GET." + jetName
	jetBatch   = 1000
	jetBytes   = 4 << 20
	jetVersion = "Version"
	jetType    = "Type"
	jetMeta    = "Metadata"
)

// head is where a stream stands: its newest version, and the sequence of that in JetStream.
type head struct{ version, sequence uint64 }

type jetStore struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	stop   func() error

	seed  maphash.Seed
	turns [256]sync.Mutex // of the streams: appends of this process do not compete
	heads sync.Map        // of head, by stream: what this process has seen
}

func (s *jetStore) open(ctx context.Context) (err error) {
	if s.js, err = peers.JetStream(s.conn); err != nil {
		return err
	}
	s.stream, err = s.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: jetName, Subjects: []string{jetPrefix + "*"}, AllowDirect: true, AllowAtomicPublish: true, DenyDelete: true,
	})
	return err
}

func (s *jetStore) Append(ctx context.Context, stream string, expected int64, events []event.Event) (uint64, error) {
	turn := &s.turns[maphash.String(s.seed, stream)%uint64(len(s.turns))]
	turn.Lock()
	defer turn.Unlock()
	known, cached := s.heads.Load(stream)
	for {
		var h head
		if cached {
			h = known.(head)
		} else if expected != event.AnyVersion && expected != event.NoStream { // a new stream is what an append guesses first
			var err error
			if h, err = s.head(ctx, stream); err != nil {
				return 0, err
			}
		}
		if expected != event.AnyVersion && h.version != uint64(expected) {
			return 0, event.ErrConflict
		}
		sequence, err := s.publish(ctx, stream, h, events)
		if err == nil {
			h = head{h.version + uint64(len(events)), sequence}
			s.heads.Store(stream, h)
			return h.version, nil
		}
		if !errors.Is(err, event.ErrConflict) || expected >= 0 {
			return 0, err
		}
		if known, err = s.head(ctx, stream); err != nil {
			return 0, err
		}
		cached = true
	}
}

// publish appends events after h, and returns the sequence of the last.
func (s *jetStore) publish(ctx context.Context, stream string, h head, events []event.Event) (uint64, error) {
	batch := ""
	if len(events) > 1 {
		batch = rand.Text()
	}
	for i := range events {
		m := &nats.Msg{Subject: jetPrefix + stream, Data: events[i].Data, Header: nats.Header{
			jetType: {events[i].Type}, jetVersion: {strconv.FormatUint(h.version+uint64(i)+1, 10)},
		}}
		if meta := events[i].Metadata; meta != nil {
			text, err := json.Marshal(meta)
			if err != nil {
				return 0, err
			}
			m.Header[jetMeta] = []string{string(text)}
		}
		if i == 0 {
			m.Header["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(h.sequence, 10)}
		}
		if batch != "" {
			m.Header["Nats-Batch-Id"], m.Header["Nats-Batch-Sequence"] = []string{batch}, []string{strconv.Itoa(i + 1)}
		}
		if i < len(events)-1 {
			if err := s.conn.PublishMsg(m); err != nil {
				return 0, err
			}
			continue
		}
		if batch != "" {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
		}
		return s.acknowledged(ctx, m)
	}
	return h.sequence, nil
}

// acknowledged publishes the last message and waits for the server's answer.
func (s *jetStore) acknowledged(ctx context.Context, m *nats.Msg) (uint64, error) {
	reply, err := s.conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, err
	}
	switch {
	case ack.Error == nil:
		return ack.Seq, nil
	case ack.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence, ack.Error.ErrorCode == 10164: // the same, of one on its way
		return 0, event.ErrConflict
	}
	return 0, ack.Error
}

// head asks the server where a stream stands.
func (s *jetStore) head(ctx context.Context, stream string) (head, error) {
	m, err := s.stream.GetLastMsgForSubject(ctx, jetPrefix+stream)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return head{}, nil
	}
	if err != nil {
		return head{}, err
	}
	version, err := strconv.ParseUint(m.Header.Get(jetVersion), 10, 64)
	return head{version, m.Sequence}, err
}

func (s *jetStore) Load(ctx context.Context, stream string, from uint64, into []event.Recorded) ([]event.Recorded, error) {
	err := s.fetch(ctx, jetPrefix+stream, 1, 0, func(r event.Recorded) {
		if r.Version >= from {
			into = append(into, r)
		}
	})
	return into, err
}

func (s *jetStore) Feed(ctx context.Context, after uint64, limit int, into []event.Recorded) ([]event.Recorded, error) {
	err := s.fetch(ctx, ">", after+1, limit, func(r event.Recorded) { into = append(into, r) })
	return into, err
}

// fetch reads messages by batched direct gets: of the subjects that match, from a
// sequence on, up to limit; 0 means all.
func (s *jetStore) fetch(ctx context.Context, subjects string, from uint64, limit int, each func(event.Recorded)) error {
	inbox := s.conn.NewInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	for left, pending := limit, true; err == nil && pending && (limit == 0 || left > 0); {
		ask := jetBatch
		if limit > 0 {
			ask = min(ask, left)
		}
		request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":%d,"max_bytes":%d}`, from, subjects, ask, jetBytes)
		if err = s.conn.PublishRequest(jetDirect, inbox, request); err != nil {
			break
		}
		var n int
		n, from, pending, err = s.portion(ctx, sub, from, each)
		left -= n
	}
	return errors.Join(err, sub.Unsubscribe())
}

// portion reads the answers to one request.
func (s *jetStore) portion(ctx context.Context, sub *nats.Subscription, from uint64, each func(event.Recorded)) (n int, next uint64, more bool, err error) {
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return n, from, false, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			r, err := fromMessage(m)
			if err != nil {
				return n, from, false, err
			}
			each(r)
			n++
			from = r.Position + 1
		case "204":
			return n, from, m.Header.Get("Nats-Num-Pending") != "0", nil
		case "404":
			return n, from, false, nil
		default:
			return n, from, false, fmt.Errorf("direct get: %s %s", status, m.Header.Get("Description"))
		}
	}
}

func fromMessage(m *nats.Msg) (event.Recorded, error) {
	position, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return event.Recorded{}, err
	}
	return fromParts(m.Header.Get("Nats-Subject"), m.Header, m.Data, position)
}

func fromParts(subject string, h nats.Header, data []byte, position uint64) (r event.Recorded, err error) {
	r = event.Recorded{Event: event.Event{Type: h.Get(jetType), Data: data}, Position: position}
	if len(subject) > len(jetPrefix) {
		r.Stream = subject[len(jetPrefix):]
	}
	if r.Version, err = strconv.ParseUint(h.Get(jetVersion), 10, 64); err != nil {
		return r, err
	}
	if text := h.Get(jetMeta); text != "" {
		err = json.Unmarshal([]byte(text), &r.Metadata)
	}
	return r, err
}

func (s *jetStore) Info(ctx context.Context, stream string) (event.Info, error) {
	i, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(jetPrefix+stream))
	if err != nil {
		return event.Info{}, err
	}
	n := i.State.Subjects[jetPrefix+stream]
	return event.Info{Version: n, Count: n}, nil
}

func (s *jetStore) LastPosition(ctx context.Context) (uint64, error) {
	i, err := s.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	return i.State.LastSeq, nil
}

// Subscribe implements [event.Subscriber].
func (s *jetStore) Subscribe(ctx context.Context, after uint64, each func(*event.Recorded)) error {
	c, err := s.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	var gate sync.Mutex // messages that were fetched ahead still come after Stop
	ended := false
	running, err := c.Consume(func(m jetstream.Msg) {
		gate.Lock()
		defer gate.Unlock()
		if ended {
			return
		}
		r, err := fromDelivery(m)
		if err != nil {
			ended = true
			failed <- err
			return
		}
		each(&r)
	})
	if err != nil {
		return err
	}
	defer func() {
		running.Stop()
		gate.Lock()
		ended = true
		gate.Unlock()
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func fromDelivery(m jetstream.Msg) (event.Recorded, error) {
	meta, err := m.Metadata()
	if err != nil {
		return event.Recorded{}, err
	}
	return fromParts(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream)
}

func (s *jetStore) Clear(ctx context.Context) error {
	s.heads.Clear()
	return s.stream.Purge(ctx)
}

func (s *jetStore) Close() error { return s.stop() }
