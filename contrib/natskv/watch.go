package natskv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Watch yields the changes of the table as they happen, in the order of the
// bucket. First come the current values in the order in which they were written,
// then one marker, an entry with Op kv.OpSynced and nothing but a Position, and then the
// changes after it. Connections that are lost and servers that restart are no end:
// the watch goes on after the last change that it has told. A bucket that does not
// exist yet is NotFound.
//
// The loop ends when its body breaks, with a Canceled error when ctx is done, with
// Closed when the store is closed, and with NotFound when the bucket was deleted. If
// the bucket was deleted and made anew, or has lost its end in a crash, the watch
// ends with Unavailable: begin anew. A value that cannot be read is as in
// [Bucket.List]: the loop may go on.
//
// # Resuming
//
// The Position of every entry, and of the marker, may be given as
// [kv.WatchOptions.After] to another watch, which goes on there; only during the
// current values it is those up to the marker that matter, since a bucket keeps no more
// than its History.
//
// # What cannot be seen
//
// A value that expires, or that an operator removes from the stream, leaves no
// trace in the bucket, so no watch is told, unless the bucket has
// [TableOptions.MarkerTTL]. A slow watch sees what the bucket still keeps: with one
// revision, the newest state of each key.
//
// # Created or updated
//
// A value is reported as created if the watch knows that its key had none: it has
// told of the current values, and of what followed. For this it keeps the keys that have a
// value in memory, until the value expires. A watch with UpdatesOnly, or After, does not know
// what was there before: it reports as created what follows one of the last deletions that it
// has met, of which it keeps at least 4,096, and everything else as updated.
func (b *Bucket[T]) Watch(ctx context.Context, o *kv.WatchOptions) iter.Seq2[kv.Entry[T], error] {
	return func(yield func(kv.Entry[T], error) bool) {
		w := watch[T]{Bucket: b, ctx: ctx, yield: yield}
		if o != nil {
			w.o = *o
		}
		err := w.run()
		if err == nil || errors.Is(err, errStopped) {
			return
		}
		select {
		case <-b.store.done:
			err = errClosed
		default:
		}
		yield(kv.Entry[T]{}, b.stream.fail("watch", "", err))
	}
}

// errStopped ends a watch whose loop was left.
var errStopped = errors.New("stopped")

// watch is one running Watch. It is the sink of its feed.
type watch[T any] struct {
	*Bucket[T]
	o     kv.WatchOptions
	ctx   context.Context
	yield func(kv.Entry[T], error) bool

	bucket   *facts // that the watch is of; nil until it has begun
	presence presence
	position uint64
}

func (w *watch[T]) run() error {
	if _, err := w.stream.find(w.ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.store.ctx, func() { cancel(errClosed) })()
	f := newFeed(w.stream)
	f.headersOnly = w.o.MetaOnly
	switch {
	case w.o.After > 0:
		f.policy, f.start = deliverFrom, uint64(w.o.After)+1
		w.position = uint64(w.o.After)
	case w.o.UpdatesOnly:
		f.policy = deliverNew
	case w.o.History:
		f.policy, w.presence.complete = deliverAll, true
	default:
		f.policy, w.presence.complete = deliverNewest, true
	}
	return f.run(ctx, w)
}

func (w *watch[T]) restart(f *facts) error {
	if w.bucket != nil || uint64(w.o.After) > f.last {
		return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "watch", Space: w.stream.bucket,
			Err: errors.New("the bucket was made anew, or has lost its end"), Hint: "begin the watch anew"}
	}
	w.bucket = f
	return nil
}

func (w *watch[T]) alive(seq uint64) {
	w.position = max(w.position, seq)
}

func (w *watch[T]) synced() error {
	w.presence.sync()
	if !w.yield(kv.Entry[T]{Op: kv.OpSynced, Position: mainstem.Position(w.position)}, nil) {
		return errStopped
	}
	return nil
}

func (w *watch[T]) deliver(m *nats.Msg, d delivery) error {
	w.position = max(w.position, d.seq)
	full, ours := w.store.layout.full(m.Subject[len(w.stream.subject):])
	key, inTable := strings.CutPrefix(full, w.prefix)
	if !ours || !inTable || key == "" {
		return nil
	}
	op, ttl := operation(m.Header), ttlOf(m.Header)
	if x := w.stream.index; x.running() && !x.passed(w.bucket) { // what this client has seen, its lists and cached values are not behind
		x.tell(w.bucket, full, d, op, ttl)
	}
	if !strings.HasPrefix(key, w.o.Prefix) {
		return nil
	}
	switch {
	case op != kv.OpUpdate:
		w.presence.end(key)
		if w.o.IgnoreDeletes {
			return nil
		}
	case w.presence.begin(key, d.time, w.stream.index.expiry(d.time, ttl)):
		op = kv.OpCreate
	}
	one := message{subject: m.Subject, seq: d.seq, time: time.Unix(0, d.time), header: m.Header, data: m.Data}
	e, err := w.show(key, &one, op)
	if !w.yield(e, err) {
		return errStopped
	}
	return nil
}

// show makes the entry of a message.
func (w *watch[T]) show(key string, m *message, op kv.Op) (kv.Entry[T], error) {
	var e kv.Entry[T]
	var err error
	switch {
	case w.o.MetaOnly || op == kv.OpDelete || op == kv.OpPurge || op == kv.OpExpire:
		e = kv.Entry[T]{Key: key, Revision: kv.Revision(m.seq), Position: mainstem.Position(m.seq), Modified: m.time, Expires: w.stream.expires(m)}
		if w.store.layout.form == formRaw {
			e.Metadata = headerMetadata(m.header)
		}
	default:
		e, err = w.value(w.ctx, key, m, false)
		if errors.Is(err, mainstem.ErrNotFound) { // its object is gone: a newer write follows
			e, err = kv.Entry[T]{Key: key, Revision: kv.Revision(m.seq), Position: mainstem.Position(m.seq), Modified: m.time}, nil
		}
	}
	e.Op = op
	if err != nil && mainstem.KindOf(err) != mainstem.KindCorrupt {
		err = fmt.Errorf("watch: %w", err)
	}
	return e, err
}
