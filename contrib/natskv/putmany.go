package natskv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Limits of what is under way at once.
const (
	// MaxAtomic is the largest number of pairs that PutMany writes with [Atomic].
	MaxAtomic = 1000

	putWindow      = 1024    // messages without an acknowledgement
	putWindowBytes = 8 << 20 // and their bytes
)

// Atomic makes PutMany write all pairs or none, at most MaxAtomic of them. A
// bucket of another client that does not allow it is altered to. It needs NATS
// server 2.12.
func Atomic() WriteOption { return WriteOption{kind: optAtomic} }

// PutMany writes all pairs and returns their revisions in order. The options
// hold for each pair. Of several pairs with one key the last is the newest. It waits for
// the acknowledgements of many messages at once. Without [Atomic] some pairs may be written
// and others not: then the revisions of those that are, are above 0, and the error is that
// of the first that is not. Objects of large values that it replaces are left to
// [Bucket.SweepObjects].
func (b *Bucket[T]) PutMany(ctx context.Context, pairs []kv.Pair[T], opts ...WriteOption) ([]kv.Revision, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	s, err := withOptions("put", optTTL|optMetadata|optConditions|optAtomic, b.o.TTL, opts)
	if err != nil {
		return nil, b.refuse("put", pairs[0].Key, err)
	}
	f, err := b.ensure(ctx)
	if err != nil {
		return nil, b.stream.failWrite("put", "", false, err)
	}
	p := putter[T]{Bucket: b, pairs: pairs, s: s, writes: make([]written, len(pairs)), revisions: make([]kv.Revision, len(pairs))}
	for i := range pairs {
		if err = b.prepare(ctx, f, "put", pairs[i].Key, pairs[i].Value, s, &p.writes[i]); err != nil {
			return nil, err
		}
	}
	if s.atomic {
		err = p.atomically(ctx, f)
	} else {
		err = p.pipelined(ctx)
	}
	return p.revisions, err
}

// putter is one running PutMany.
type putter[T any] struct {
	*Bucket[T]
	pairs     []kv.Pair[T]
	s         settings
	writes    []written
	revisions []kv.Revision

	failed int // the first pair that failed, and why
	err    error
}

// fail remembers the error of a pair, unless one before it failed.
func (p *putter[T]) fail(i int, err error) {
	if p.err == nil || i < p.failed {
		p.failed, p.err = i, err
	}
}

// pipelined publishes without waiting, and collects the acknowledgements.
func (p *putter[T]) pipelined(ctx context.Context) error {
	in, err := p.store.calls.take(true)
	if err != nil {
		return p.stream.failWrite("put", p.pairs[0].Key, false, err)
	}
	var again []int
	w := newWindow(min(len(p.writes), putWindow))
	for acked, sent := 0, 0; acked < len(p.writes); acked++ {
		for sent < len(p.writes) && w.open() {
			if err = p.store.calls.send(&p.writes[sent].request, in.reply(w.next())); err != nil {
				p.fail(sent, p.stream.failWrite("put", p.pairs[sent].Key, false, err))
				break
			}
			w.add(sent, len(p.writes[sent].data))
			sent++
		}
		if acked == sent { // and err says why no more could be sent
			break
		}
		m, waitErr := p.store.calls.wait(ctx, in)
		if waitErr != nil {
			p.unanswered(sent, waitErr)
			p.store.calls.give(in, false)
			return p.err
		}
		i := w.remove(in.number(m))
		if p.confirm(i, m) {
			again = append(again, i)
		}
	}
	p.store.calls.give(in, true)
	for _, i := range p.inOrder(again) {
		if p.revisions[i], err = p.commit(ctx, "put", p.pairs[i].Key, &p.writes[i], p.s); err != nil {
			p.fail(i, err)
		}
	}
	return p.err
}

// inOrder returns the pairs to write again, in their order: those of again, and, where no
// condition keeps an earlier value from it, those that were written after them to the same
// keys. Of the values of a key the last of the pairs is the newest.
func (p *putter[T]) inOrder(again []int) []int {
	slices.Sort(again)
	if p.s.condition != 0 || len(again) == 0 {
		return again
	}
	first := make(map[string]int, len(again)) // by token
	for _, i := range again {
		if _, ok := first[p.writes[i].token]; !ok {
			first[p.writes[i].token] = i
		}
	}
	var all []int
	for i := again[0]; i < len(p.writes); i++ {
		_, missed := slices.BinarySearch(again, i)
		before, ok := first[p.writes[i].token]
		if missed || ok && before < i && p.revisions[i] > 0 {
			all = append(all, i)
		}
	}
	return all
}

// window bounds the requests that have no answer yet, and gives them numbers.
type window struct {
	free  []int // numbers
	index []int // by number: which request has it
	size  []int // by number: its bytes
	bytes int
}

func newWindow(n int) *window {
	w := &window{free: make([]int, n), index: make([]int, n), size: make([]int, n)}
	for i := range n {
		w.free[i] = n - 1 - i
	}
	return w
}

// open reports whether there is room for one more.
func (w *window) open() bool {
	return len(w.free) > 0 && (w.bytes < putWindowBytes || len(w.free) == len(w.index))
}

// next returns the number that add will give.
func (w *window) next() int { return w.free[len(w.free)-1] }

func (w *window) add(i, bytes int) {
	n := w.next()
	w.free = w.free[:len(w.free)-1]
	w.index[n], w.size[n] = i, bytes
	w.bytes += bytes
}

// remove returns which request a number was given to, and frees the number.
func (w *window) remove(number int) int {
	w.free = append(w.free, number)
	w.bytes -= w.size[number]
	return w.index[number]
}

// confirm takes in the answer to the write of pair i. It is true for a write that must
// be done again by itself.
func (p *putter[T]) confirm(i int, m *nats.Msg) (again bool) {
	if isNoResponders(m) {
		return true
	}
	seq, err := parseAck(m.Data)
	switch {
	case isWrongSequence(err), isCode(err, codeTTLDisabled):
		return true
	case err != nil:
		p.fail(i, p.stream.failWrite("put", p.pairs[i].Key, true, err))
		return false
	}
	p.revisions[i] = kv.Revision(seq)
	p.stream.wrote(&p.writes[i], seq, kv.OpUpdate)
	return false
}

// unanswered fails the pairs without an answer: of those up to sent nobody knows.
func (p *putter[T]) unanswered(sent int, err error) {
	for i := range p.revisions {
		if p.revisions[i] == 0 {
			p.fail(i, p.stream.failWrite("put", p.pairs[i].Key, i < sent, err))
			return
		}
	}
}

// atomically publishes one atomic batch.
func (p *putter[T]) atomically(ctx context.Context, f *facts) error {
	if len(p.pairs) > MaxAtomic {
		return p.refuse("put", p.pairs[0].Key, fmt.Errorf("%d pairs in an atomic batch: the limit is %d; split it, or put them without Atomic", len(p.pairs), MaxAtomic))
	}
	if !f.atomic {
		f, err := p.stream.allow(ctx, "allow_atomic")
		if err == nil && !f.atomic {
			err = &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "put", Space: p.stream.bucket, Outcome: mainstem.NotWritten,
				Err: errors.New("the server knows no atomic batches"), Hint: "they need nats-server 2.12"}
		}
		if err != nil {
			return p.stream.failWrite("put", p.pairs[0].Key, false, err)
		}
	}
	a, sent, err := p.publishBatch(ctx)
	if isWrongSequence(err) {
		return p.conflict(ctx)
	}
	if err == nil && a.Count != len(p.pairs) {
		err = fmt.Errorf("the server acknowledges %d messages of %d", a.Count, len(p.pairs))
	}
	if err != nil {
		return p.stream.failWrite("put", p.pairs[0].Key, sent, err)
	}
	for i := range p.writes {
		seq := a.Seq - uint64(len(p.writes)-1-i)
		p.revisions[i] = kv.Revision(seq)
		delete(p.writes[i].header, headerBatch)
		p.stream.wrote(&p.writes[i], seq, kv.OpUpdate)
	}
	return nil
}

// publishBatch sends the messages of an atomic batch, and returns the server's
// answer to the whole: to the first message if that was refused, or to the last.
func (p *putter[T]) publishBatch(ctx context.Context) (a ack, sent bool, err error) {
	calls := p.store.calls
	in, err := calls.take(true)
	if err != nil {
		return a, false, err
	}
	id := rand.Text()
	for i := range p.writes {
		w := &p.writes[i]
		h := with(w.header, headerBatch, id)
		h[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
		reply := ""
		if i == 0 {
			reply = in.reply(0)
		}
		if i == len(p.writes)-1 {
			h[headerBatchCommit] = []string{"1"}
			reply = in.reply(0)
		}
		w.header = h
		if err := calls.nc.PublishMsg(&nats.Msg{Subject: w.subject, Reply: reply, Header: h, Data: w.data}); err != nil {
			calls.give(in, false)
			return a, false, err // the server forgets a batch without its last message
		}
	}
	for {
		m, err := calls.wait(ctx, in)
		if err != nil {
			calls.give(in, false)
			return a, true, err
		}
		if len(m.Data) == 0 && !isNoResponders(m) {
			continue // the batch was begun
		}
		calls.give(in, false)
		if isNoResponders(m) {
			return a, false, errNoResponders
		}
		a, err = decodeAck(m.Data)
		return a, true, err
	}
}

// conflict finds out which condition of an atomic batch did not hold.
func (p *putter[T]) conflict(ctx context.Context) error {
	for i := range p.writes {
		w := &p.writes[i]
		m, err := p.stream.fetchLeader(ctx, w.token)
		if err != nil && !errors.Is(err, errNoMessage) {
			return p.stream.failWrite("put", p.pairs[i].Key, false, err)
		}
		if expected := w.header.Get(headerExpected); expected != "" && expected != strconv.FormatUint(m.seq, 10) {
			if err := p.stream.contend(ctx, "put", p.pairs[i].Key, w, p.s); err != nil {
				return err
			}
		}
	}
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "put", Space: p.stream.bucket, Outcome: mainstem.NotWritten,
		Err: errors.New("a key of the batch was being written, or has a deletion marker"), Hint: "try again, or put the pairs without Atomic"}
}
