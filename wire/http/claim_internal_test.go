package viewhttp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

// TestClaimsByRandom runs random programs of consumers on the state of a subscription, and
// compares what is done with a model that knows each event.
func TestClaimsByRandom(t *testing.T) {
	for seed := range uint64(300) {
		p := claimProgram{t: t, r: rand.New(rand.NewPCG(seed, 1)), done: map[mainstem.Position]bool{}, parked: map[mainstem.Position]bool{}, now: time.Unix(1_700_000_000, 0)}
		p.state.Config = subscriptionConfig{Strategy: []string{roundRobin, pinned, single}[seed%3], Timeout: time.Second, MaxRetry: 2, Buffer: 8}
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
	state claimState
	now   time.Time
	log   []claimEntry // all events
	// out are the tokens that consumers have, of any age.
	out    []claimToken
	done   map[mainstem.Position]bool
	parked map[mainstem.Position]bool
}

func (p *claimProgram) step() {
	switch p.r.IntN(6) {
	case 0:
		at := mainstem.Position(2 * (len(p.log) + 1))
		p.log = append(p.log, claimEntry{Position: at, Stream: fmt.Sprintf("s-%d", p.r.IntN(4)), Version: mainstem.Version(at)})
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
	p.state = claimState{}
	if err := json.Unmarshal(data, &p.state); err != nil {
		p.t.Fatal(err)
	}
}

func (p *claimProgram) claim(consumer string, limit int) {
	for _, e := range p.state.expire(p.now) {
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
		p.out = append(p.out, claimToken{p.state.Epoch, e.Position, e.Attempt})
	}
}

// inOrder reports an event of a pinned stream that is handed out while an earlier one of the
// same stream is with another consumer.
func (p *claimProgram) inOrder(e *claimEntry, consumer string) {
	for _, other := range p.state.Entries {
		if p.state.Config.Strategy == pinned && other.Stream == e.Stream && other.Position < e.Position && other.Consumer != consumer {
			p.t.Errorf("event %d of %s is handed to %s before %d, which is with %q", e.Position, e.Stream, consumer, other.Position, other.Consumer)
		}
	}
}

func (p *claimProgram) answer(token claimToken, ack bool) {
	i := slices.IndexFunc(p.state.Entries, func(e claimEntry) bool { return e.Position == token.position })
	current := i >= 0 && p.state.Entries[i].Attempt == token.attempt && p.state.Entries[i].Consumer != ""
	ended, stale := p.state.resolve([]claimToken{token})
	switch {
	case current != (len(ended) == 1):
		p.t.Errorf("token %v: current %v, ended %v, stale %v", token, current, ended, stale)
	case i >= 0 && !current && len(stale) != 1:
		p.t.Errorf("token %v of an older attempt is taken", token)
	case !current:
	case ack:
		p.done[token.position] = true
	default:
		for _, e := range p.state.putBack(ended) {
			p.parked[e.Position] = true
		}
	}
}

func (p *claimProgram) check() {
	s := &p.state
	if len(s.Entries) > s.Config.Buffer || !slices.IsSortedFunc(s.Entries, func(a, b claimEntry) int { return compare(a.Position, b.Position) }) {
		p.t.Errorf("the entries are too many, or out of order: %v", s.Entries)
	}
	for _, e := range p.log {
		held := slices.ContainsFunc(s.Entries, func(x claimEntry) bool { return x.Position == e.Position })
		ended := p.done[e.Position] || p.parked[e.Position]
		if e.Position <= s.Read && held == ended || e.Position > s.Read && (held || ended) {
			p.t.Errorf("event %d, read to %d: held %v, ended %v", e.Position, s.Read, held, ended)
		}
		if e.Position <= s.mark() && !ended {
			p.t.Errorf("event %d is not done, and the mark is %d", e.Position, s.mark())
		}
	}
}

// FuzzDecoders: whatever clients send is refused or understood, and means the same when it is
// written again.
func FuzzDecoders(f *testing.F) {
	for _, seed := range []string{"1-2-3", "0:17,1:4", `"12"`, `[{"type":"a","data":1}]`, `{"do":[{"kv.put":{"table":"a/b","key":"k","text":"v"}}]}`, "", "-", "18446744073709551615-1-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := parseToken(text); err == nil {
			if again, err := parseToken(token.String()); err != nil || again != token {
				t.Errorf("%q: %v becomes %v, %v", text, token, again, err)
			}
		}
		if offsets, err := parseOffsetsID(text, 8); err == nil {
			again, err := parseOffsetsID(offsetsID(offsets), 8)
			if err != nil || offsetsID(again) != offsetsID(offsets) {
				t.Errorf("%q: %v becomes %v, %v", text, offsets, again, err)
			}
		}
		var p position
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			data, err := json.Marshal(p)
			if err != nil || !strings.Contains(string(data), `"`) {
				t.Errorf("%q: %s, %v", text, data, err)
			}
		}
		list, err := decodeList[newEvent]([]byte(text), 3)
		if err == nil && len(list) > 3 {
			t.Errorf("%q: %d elements", text, len(list))
		}
		var q commitRequest
		if decodeJSON([]byte(text), &q) == nil {
			actions, _ := optionalList[commitAction](q.Do, 10)
			for i := range actions {
				_, _ = actions[i].one() // it only must not panic
			}
		}
	})
}
