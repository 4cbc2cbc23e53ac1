package claims

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// TestClaimsByRandom runs random programs of consumers on the state of a subscription, and compares
// the results with a model that has each event.
func TestClaimsByRandom(t *testing.T) {
	for seed := range uint64(300) {
		p := claimProgram{t: t, r: rand.New(rand.NewPCG(seed, 1)), done: map[mainstem.Position]bool{}, parked: map[mainstem.Position]bool{}, now: time.Unix(1_700_000_000, 0)}
		p.state.Config = Config{Strategy: []string{RoundRobin, Pinned, Single}[seed%3], Timeout: time.Second, MaxRetry: 2, Buffer: 8}
		for range 150 {
			p.step()
			p.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// claimProgram is one run.
type claimProgram struct {
	t     *testing.T
	r     *rand.Rand
	state State
	now   time.Time
	log   []Entry // all events
	// out are the tokens that consumers have, of any age.
	out    []Token
	done   map[mainstem.Position]bool
	parked map[mainstem.Position]bool
}

func (p *claimProgram) step() {
	switch p.r.IntN(6) {
	case 0:
		at := mainstem.Position(2 * (len(p.log) + 1))
		p.log = append(p.log, Entry{Position: at, Stream: fmt.Sprintf("s-%d", p.r.IntN(4)), Version: mainstem.Version(at)})
	case 1, 2:
		p.claim(fmt.Sprintf("c%d", p.r.IntN(3)), 1+p.r.IntN(3))
	case 3, 4:
		if len(p.out) > 0 {
			p.answer(p.out[p.r.IntN(len(p.out))], p.r.IntN(3) > 0)
		}
	case 5:
		p.now = p.now.Add(time.Duration(p.r.IntN(700)) * time.Millisecond)
	}
	// It is stored after each step, as it is after each request.
	data, err := json.Marshal(&p.state)
	if err != nil {
		p.t.Fatal(err)
	}
	p.state = State{}
	if err := json.Unmarshal(data, &p.state); err != nil {
		p.t.Fatal(err)
	}
}

func (p *claimProgram) claim(consumer string, limit int) {
	for _, e := range p.state.Expire(p.now) {
		p.parked[e.Position] = true
	}
	p.state.see(consumer, p.now)
	for _, e := range p.log {
		if e.Position > p.state.Read && len(p.state.Entries) < p.state.Config.Buffer {
			p.state.Entries = append(p.state.Entries, e)
			p.state.Read = e.Position
		}
	}
	for _, i := range p.state.offer(consumer, limit) {
		e := &p.state.Entries[i]
		if p.done[e.Position] || p.parked[e.Position] || e.Consumer != "" {
			p.t.Errorf("event %d is handed out: done %v, parked %v, with %q", e.Position, p.done[e.Position], p.parked[e.Position], e.Consumer)
		}
		p.inOrder(e, consumer)
		e.Attempt++
		e.Consumer, e.Deadline = consumer, p.now.Add(p.state.Config.Timeout).UnixNano()
		p.out = append(p.out, Token{p.state.Epoch, e.Position, e.Attempt})
	}
}

// inOrder reports an event of a pinned stream that is handed out while an earlier one of the
// same stream is with another consumer.
func (p *claimProgram) inOrder(e *Entry, consumer string) {
	for _, other := range p.state.Entries {
		if p.state.Config.Strategy == Pinned && other.Stream == e.Stream && other.Position < e.Position && other.Consumer != consumer {
			p.t.Errorf("event %d of %s is handed to %s before %d, which is with %q", e.Position, e.Stream, consumer, other.Position, other.Consumer)
		}
	}
}

func (p *claimProgram) answer(token Token, ack bool) {
	i := slices.IndexFunc(p.state.Entries, func(e Entry) bool { return e.Position == token.Position })
	current := i >= 0 && p.state.Entries[i].Attempt == token.Attempt && p.state.Entries[i].Consumer != ""
	ended, stale := p.state.Resolve([]Token{token})
	switch {
	case current != (len(ended) == 1):
		p.t.Errorf("token %v: current %v, ended %v, stale %v", token, current, ended, stale)
	case i >= 0 && !current && len(stale) != 1:
		p.t.Errorf("token %v of an older attempt is taken", token)
	case !current:
	case ack:
		p.done[token.Position] = true
	default:
		for _, e := range p.state.PutBack(ended) {
			p.parked[e.Position] = true
		}
	}
}

func (p *claimProgram) check() {
	s := &p.state
	if len(s.Entries) > s.Config.Buffer || !slices.IsSortedFunc(s.Entries, func(a, b Entry) int { return compare(a.Position, b.Position) }) {
		p.t.Errorf("the entries are too many, or out of order: %v", s.Entries)
	}
	for _, e := range p.log {
		held := slices.ContainsFunc(s.Entries, func(x Entry) bool { return x.Position == e.Position })
		ended := p.done[e.Position] || p.parked[e.Position]
		if e.Position <= s.Read && held == ended || e.Position > s.Read && (held || ended) {
			p.t.Errorf("event %d, read to %d: held %v, ended %v", e.Position, s.Read, held, ended)
		}
		if e.Position <= s.Mark() && !ended {
			p.t.Errorf("event %d is not done, and the mark is %d", e.Position, s.Mark())
		}
	}
}

// FuzzTokens checks that any text is either refused or parsed to a token with the same meaning.
func FuzzTokens(f *testing.F) {
	for _, seed := range []string{"1-2-3", "", "-", "18446744073709551615-1-1", "1-2-99999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := ParseToken(text); err == nil {
			if again, err := ParseToken(token.String()); err != nil || again != token {
				t.Errorf("%q: %v becomes %v, %v", text, token, again, err)
			}
		}
	})
}

// A configuration is stored in these bytes.
func TestConfigAsStored(t *testing.T) {
	c := Config{
		Filter: event.Filter{Category: "order", Types: []string{"Placed"}, Streams: []string{"order-1"}},
		From:   3, Strategy: Single, Timeout: time.Second, MaxRetry: 2, Buffer: 8,
	}
	const want = `{"category":"order","types":["Placed"],"streams":["order-1"],"from":3,"strategy":"single","timeout":1000000000,"max_retry":2,"buffer":8}`
	if got, err := json.Marshal(c); err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
