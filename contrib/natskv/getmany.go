package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// MaxTogether is the largest number of keys that GetMany reads at one moment.
const MaxTogether = 1024

const (
	getWindow = 256       // single gets without an answer
	getBytes  = 16 << 20  // that the server sends for one request, about
	askBytes  = 256 << 10 // of the subjects in one request
)

// getMany returns the newest messages of keys, nil for those that have none, and
// whether some are shared with the cache or each other.
func (b *Bucket[T]) getMany(ctx context.Context, keys []string) ([]*message, bool, error) {
	g := getter{stream: b.stream, places: make(map[string][]int, len(keys)), found: make([]*message, len(keys))}
	shared := b.store.cacheBytes > 0
	for i, key := range keys {
		if err := b.checkKey("get", key); err != nil {
			return nil, false, err
		}
		if shared {
			if m, ok := b.peek(ctx, key); ok {
				if m.seq > 0 {
					g.found[i] = &m
				}
				continue
			}
		}
		_, token, err := b.locate("get", key)
		if err != nil {
			return nil, false, err
		}
		subject := b.stream.subject + token
		g.places[subject] = append(g.places[subject], i)
		if len(g.places[subject]) == 1 {
			g.subjects = append(g.subjects, subject)
		}
	}
	if err := g.run(ctx); err != nil && !errors.Is(err, errNoBucket) {
		return nil, false, b.stream.fail("get", "", err)
	}
	return g.found, shared || len(g.subjects) < len(keys), nil
}

// getter is one running getMany.
type getter struct {
	stream   *stream
	facts    *facts           // of the bucket, before it was asked
	subjects []string         // different ones
	places   map[string][]int // of each among the keys
	found    []*message
}

func (g *getter) run(ctx context.Context) error {
	if len(g.subjects) == 0 {
		return nil
	}
	f, err := g.stream.find(ctx)
	if err != nil {
		return err
	}
	g.facts = f
	if g.stream.onlyLeader(f) {
		return g.leader(ctx, g.subjects)
	}
	for rest := g.subjects; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < MaxTogether && (n == 0 || size+len(rest[n])+3 <= askBytes) {
			size += len(rest[n]) + 3
			n++
		}
		if err := g.together(ctx, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if g.stream.onlyLeader(f) { // a mirror has answered
		for _, s := range g.subjects {
			for _, i := range g.places[s] {
				g.found[i] = nil
			}
		}
		return g.leader(ctx, g.subjects)
	}
	return g.stale(ctx)
}

// take keeps a message that was found, and tells the index.
func (g *getter) take(m message) {
	for _, i := range g.places[m.subject] {
		g.found[i] = &m
	}
	if full, ok := g.full(m.subject); ok && g.stream.index.running() {
		g.stream.index.note(g.facts, full, &m, operation(m.header), true)
	}
}

func (g *getter) full(subject string) (string, bool) {
	return g.stream.store.layout.full(subject[len(g.stream.subject):])
}

// together asks for the newest messages of up to MaxTogether subjects in one
// request, and again for those that the server left out: because of their size, or because
// it could not read one.
func (g *getter) together(ctx context.Context, subjects []string) error {
	for len(subjects) > 0 {
		var left []string
		err := g.stream.retry(ctx, func() error {
			var err error
			left, err = g.ask(ctx, subjects)
			return err
		})
		if err != nil {
			return err
		}
		if len(left) == len(subjects) { // the leader says of each why
			return g.leader(ctx, left)
		}
		subjects = left
	}
	return nil
}

// ask sends one request for many subjects and returns those left out.
func (g *getter) ask(ctx context.Context, subjects []string) (left []string, err error) {
	type query struct {
		Multi    []string `json:"multi_last"`
		MaxBytes int      `json:"max_bytes"`
	}
	data, err := json.Marshal(query{subjects, getBytes})
	if err != nil {
		return nil, err
	}
	calls := g.stream.store.calls
	in, err := calls.take(true)
	if err != nil {
		return nil, err
	}
	if err := calls.send(&request{subject: g.stream.store.api + "DIRECT.GET." + g.stream.name, data: data}, in.reply(0)); err != nil {
		calls.give(in, true)
		return nil, err
	}
	for answered := 0; ; answered++ {
		m, err := calls.wait(ctx, in)
		if err != nil {
			calls.give(in, false)
			return nil, err
		}
		if status := statusOf(m); status != "" && len(m.Data) == 0 {
			calls.give(in, true)
			return g.end(m, status, subjects, answered)
		}
		g.stream.answeredBy(m)
		one, err := parseDirect(m)
		if err != nil {
			calls.give(in, false)
			return nil, err
		}
		g.take(one)
	}
}

// statusNoResults describes the status 404 of an answer to subjects that have no messages. With
// any other description, a message that is there could not be sent.
const statusNoResults = "No Results"

// end handles the message that ends the answer to many subjects.
func (g *getter) end(m *nats.Msg, status string, subjects []string, answered int) (left []string, err error) {
	description := m.Header.Get("Description")
	switch {
	case status == "204" && (answered == 0 || m.Header.Get(headerPending) == "0"):
		return nil, nil
	case status == "404" && description == statusNoResults:
		return nil, nil
	case status == "204", status == "404":
	case status == "503":
		return nil, errNoResponders
	default:
		return nil, fmt.Errorf("jetstream: %s %s", status, description)
	}
	for _, s := range subjects {
		if g.found[g.places[s][0]] == nil {
			left = append(left, s)
		}
	}
	return left, nil
}

// stale asks the leader for what a replica or a mirror answered with less than is known.
func (g *getter) stale(ctx context.Context) error {
	if !g.stream.index.running() {
		return nil
	}
	var behind []string
	for _, s := range g.subjects {
		full, ok := g.full(s)
		if !ok {
			continue
		}
		known, _ := g.stream.index.newest(full)
		if m := g.found[g.places[s][0]]; known > 0 && (m == nil || m.seq < known) {
			behind = append(behind, s)
		}
	}
	return g.leader(ctx, behind)
}

// leader asks the leader for each subject, and again while the bucket has none.
func (g *getter) leader(ctx context.Context, subjects []string) error {
	return g.stream.retry(ctx, func() error { return g.single(ctx, subjects) })
}

// single asks the leader for each subject by itself, many at once.
func (g *getter) single(ctx context.Context, subjects []string) error {
	calls := g.stream.store.calls
	for len(subjects) > 0 {
		n := min(len(subjects), getWindow)
		in, err := calls.take(true)
		if err != nil {
			return err
		}
		for _, s := range subjects[:n] {
			data, err := json.Marshal(map[string]string{"last_by_subj": s})
			if err != nil {
				return err
			}
			if err := calls.send(&request{subject: g.stream.store.api + "STREAM.MSG.GET." + g.stream.name, data: data}, in.reply(0)); err != nil {
				calls.give(in, false)
				return err
			}
		}
		for range n {
			if err := g.one(ctx, in); err != nil {
				calls.give(in, false)
				return err
			}
		}
		calls.give(in, true)
		subjects = subjects[n:]
	}
	return nil
}

// one takes in one answer to single.
func (g *getter) one(ctx context.Context, in *inbox) error {
	answer, err := g.stream.store.calls.wait(ctx, in)
	if err != nil {
		return err
	}
	if isNoResponders(answer) {
		return errNoResponders
	}
	m, err := parseStored(answer.Data)
	if errors.Is(err, errNoMessage) {
		return nil
	}
	if err != nil {
		return err
	}
	g.take(m)
	return nil
}
