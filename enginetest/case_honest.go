package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

var honestCases = []testCase{
	{law: Honest, name: "impossible batches", run: impossibleBatches,
		promise: "A batch that can never be committed is Invalid, certainly not written, and the error says why."},
	{law: Honest, name: "limits are exact", run: limitsAreExact,
		promise: "What is exactly at a limit is accepted and what is one above it is Invalid."},
	{law: Honest, name: "failed batches", run: failedBatches,
		promise: "An error given to Batch.Fail comes back from Commit, and nothing is written."},
	{law: Honest, name: "unknown space", run: unknownSpaceIsNotFound,
		promise: "A write to a space that does not exist is NotFound, names the space, and reading creates none."},
	{law: Honest, name: "canceled before", run: canceledBefore,
		promise: "A commit with a context that has ended is Canceled and certainly not written."},
	{law: Honest, name: "canceled meanwhile", run: canceledMeanwhile,
		promise: "Whatever moment a context ends at, the outcome in the error is true."},
	{law: Honest, name: "closed log", run: closedLog,
		promise: "Every call on a closed log is Closed, certainly not written, and closing twice is no error."},
	{law: Honest, name: "errors of reads", run: errorsOfReads,
		promise: "Errors of reads have no outcome and name the space and the key that they are about."},
}

func impossibleBatches(e *env) {
	e.seeded()
	lim := e.f.Limits
	k, huge := []byte("k"), make([]byte, mainstem.MaxKey+1)
	manyHeaders := make(mainstem.Headers, mainstem.MaxHeaders+1)
	batches := map[string]func(b *mainstem.Batch){
		"nil key":            func(b *mainstem.Batch) { b.Put("s", nil, nil) },
		"empty key":          func(b *mainstem.Batch) { b.Put("s", []byte{}, nil) },
		"huge key":           func(b *mainstem.Batch) { b.Put("s", huge, nil) },
		"empty key deleted":  func(b *mainstem.Batch) { b.Delete("s", nil) },
		"empty space":        func(b *mainstem.Batch) { b.Put("", k, nil) },
		"huge space":         func(b *mainstem.Batch) { b.Put(strings.Repeat("s", mainstem.MaxSpaceName+1), k, nil) },
		"huge value":         func(b *mainstem.Batch) { b.Put("s", k, make([]byte, lim.MaxValue+1)) },
		"huge batch":         func(b *mainstem.Batch) { fillBatch(b, lim, lim.MaxBatchBytes+1) },
		"many headers":       func(b *mainstem.Batch) { b.Add(mainstem.Write{Space: "s", Key: k, Headers: manyHeaders}) },
		"huge header name":   func(b *mainstem.Batch) { b.Add(withHeader(strings.Repeat("n", mainstem.MaxHeaderName+1), nil)) },
		"huge headers":       func(b *mainstem.Batch) { b.Add(withHeader("n", make([]byte, mainstem.MaxHeaderBytes))) },
		"unknown operation":  func(b *mainstem.Batch) { b.Add(mainstem.Write{Op: mainstem.OpRemove + 1, Space: "s", Key: k}) },
		"negative TTL":       func(b *mainstem.Batch) { b.Add(mainstem.Write{Space: "s", Key: k, TTL: -1}) },
		"truncate at 0":      func(b *mainstem.Batch) { b.Truncate("s", []byte("live"), 0) },
		"rewrite of 0":       func(b *mainstem.Batch) { b.Rewrite("s", []byte("live"), 0, nil, nil) },
		"remove of 0":        func(b *mainstem.Batch) { b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "s", Key: []byte("live")}) },
		"unknown test":       func(b *mainstem.Batch) { b.If(mainstem.Condition{Space: "s", Key: k, Test: mainstem.TestNotAfter + 1}) },
		"condition on 0":     func(b *mainstem.Batch) { b.IfVersion("s", k, 0) },
		"condition no key":   func(b *mainstem.Batch) { b.IfAbsent("s", nil) },
		"condition no space": func(b *mainstem.Batch) { b.IfAbsent("", k) },
		"huge ID":            func(b *mainstem.Batch) { b.ID = strings.Repeat("i", mainstem.MaxBatchID+1); b.Put("s", k, nil) },
		"unknown durability": func(b *mainstem.Batch) { b.Durability = mainstem.OS - 1; b.Put("s", k, nil) },
		"space control":      func(b *mainstem.Batch) { b.Ensure("a\nb", mainstem.Policy{}) },
		"space not UTF-8":    func(b *mainstem.Batch) { b.Ensure("a\xff", mainstem.Policy{}) },
		"policy history":     func(b *mainstem.Batch) { b.Ensure("new", mainstem.Policy{History: -1}) },
		"policy age":         func(b *mainstem.Batch) { b.Ensure("new", mainstem.Policy{MaxAge: -1}) },
	}
	for name, fill := range batches {
		for _, alone := range []bool{true, false} {
			err := e.refused(mainstem.KindInvalid, func(b *mainstem.Batch) {
				if !alone {
					b.Put("s", []byte("innocent"), nil)
				}
				fill(b)
			})
			if len(err.Error()) < len("invalid: ")+8 {
				e.Fatalf("%s: the error %q does not say why", name, err)
			}
		}
	}
}

func withHeader(name string, value []byte) mainstem.Write {
	return mainstem.Write{Space: "s", Key: []byte("k"), Headers: mainstem.Headers{{Name: name, Value: value}}}
}

// fillBatch adds writes of size bytes in all, none above the limit of a value.
func fillBatch(b *mainstem.Batch, lim mainstem.Limits, size int) {
	for n := 0; size > 0; n++ {
		key := fmt.Appendf(nil, "k%04d", n)
		value := min(max(size-len(key), 0), lim.MaxValue)
		b.Put("s", key, make([]byte, value))
		size -= len(key) + value
	}
}

func limitsAreExact(e *env) {
	e.space("s", mainstem.Policy{})
	lim := e.f.Limits
	key, value := make([]byte, mainstem.MaxKey), make([]byte, lim.MaxValue)
	name := strings.Repeat("n", mainstem.MaxSpaceName)
	headers := make(mainstem.Headers, mainstem.MaxHeaders)
	for i := range headers {
		headers[i].Name = "h"
	}
	headers[0].Name = strings.Repeat("h", mainstem.MaxHeaderName)
	headers[1].Value = make([]byte, min(mainstem.MaxHeaderBytes, lim.MaxBatchBytes/2)-mainstem.MaxHeaderName-len(headers)+1)
	key[0], key[mainstem.MaxKey-1], value[0], value[lim.MaxValue-1] = 1, 2, 3, 4
	e.commit(func(b *mainstem.Batch) { b.Put("s", key, nil) })
	e.commit(func(b *mainstem.Batch) { b.Put("s", []byte("v"), value) })
	e.commit(func(b *mainstem.Batch) { b.Add(mainstem.Write{Space: "s", Key: []byte("h"), Headers: headers}) })
	e.commit(func(b *mainstem.Batch) { b.Ensure(name, mainstem.Policy{}); b.Put(name, key, nil) })
	e.commit(func(b *mainstem.Batch) { b.ID = strings.Repeat("i", mainstem.MaxBatchID); b.Put("s", []byte("i"), nil) })
	for what, want := range map[string]mainstem.Record{
		"key": {Key: key}, "value": {Key: []byte("v"), Value: value}, "headers": {Key: []byte("h"), Headers: headers},
	} {
		got, err := e.log.Get(e.ctx, "s", want.Key)
		if err != nil || bytesText(got.Key) != bytesText(want.Key) || bytesText(got.Value) != bytesText(want.Value) || len(got.Headers) != len(want.Headers) {
			e.Fatalf("a %s at its limit does not come back: %s, %v", what, brief(got), err)
		}
	}
	e.get(name, string(key))

	full := mainstem.NewBatch()
	fillBatch(full, lim, lim.MaxBatchBytes)
	if _, err := e.attempt(full); err != nil {
		e.Fatalf("a batch of exactly %d bytes: %v", lim.MaxBatchBytes, err)
	}
	many, tests := mainstem.NewBatch(), mainstem.NewBatch()
	for range lim.MaxBatchWrites {
		many.Delete("s", []byte("nothing"))
		tests.IfAbsent("s", []byte("nothing"))
	}
	for what, b := range map[string]*mainstem.Batch{"writes": many, "conditions": tests} {
		if _, err := e.attempt(b); err != nil {
			e.Fatalf("a batch of exactly %d %s: %v", lim.MaxBatchWrites, what, err)
		}
	}
	many.Delete("s", []byte("nothing"))
	tests.IfAbsent("s", []byte("nothing"))
	for what, b := range map[string]*mainstem.Batch{"writes": many, "conditions": tests} {
		_, err := e.attempt(b)
		e.kind(fmt.Sprintf("a batch of %d %s", lim.MaxBatchWrites+1, what), err, mainstem.KindInvalid)
	}
}

func failedBatches(e *env) {
	e.seeded()
	before := e.dump(e.log)
	mine := errors.New("cannot encode")
	b := mainstem.NewBatch()
	muchWork(b)
	b.Fail(mine)
	if _, err := e.attempt(b); !errors.Is(err, mine) {
		e.Fatalf("a batch failed with %q is committed with %v", mine, err)
	}
	e.unchanged(before, "after a failed batch")
}

func unknownSpaceIsNotFound(e *env) {
	e.space("here", mainstem.Policy{})
	for _, name := range []string{"nowhere", "her", "here2", "here/"} {
		for op := mainstem.OpPut; op <= mainstem.OpRemove; op++ {
			if e.f.lacks(op) {
				continue
			}
			err := e.refused(mainstem.KindNotFound, func(b *mainstem.Batch) {
				b.Add(mainstem.Write{Op: op, Space: name, Key: []byte("k"), Version: 1})
			})
			if err.Space != name {
				e.Fatalf("%s in %s: the error %q names space %q", op, name, err, err.Space)
			}
		}
		if _, err := e.log.Get(e.ctx, name, []byte("k")); e.kind("get", err, mainstem.KindNotFound).Space != name {
			e.Fatalf("get of %s: the error %q does not name the space", name, err)
		}
		_, err := collect(e.log.Scan(e.ctx, name, mainstem.Range{}))
		e.kind("scan of an unknown space", err, mainstem.KindNotFound)
		_, err = collect(e.log.Read(e.ctx, name, []byte("k"), mainstem.Versions{}))
		e.kind("read of an unknown space", err, mainstem.KindNotFound)
		_, err = e.log.Space(e.ctx, name)
		e.kind("description of an unknown space", err, mainstem.KindNotFound)
		e.kind("alter of an unknown space", e.log.AlterSpace(e.ctx, name, mainstem.Policy{}), mainstem.KindNotFound)
		e.kind("drop of an unknown space", e.log.DropSpace(e.ctx, name), mainstem.KindNotFound)
		if got := e.feed(mainstem.Filter{Spaces: []string{name}}); len(got) != 0 {
			e.Fatalf("the feed of an unknown space has %v", briefs(got))
		}
	}
	e.same("the spaces afterwards", e.names(""), "here")
}

// lacks reports whether f leaves out op.
func (f Features) lacks(op mainstem.Op) bool {
	switch op {
	case mainstem.OpForget:
		return !f.Forget
	case mainstem.OpTruncate:
		return !f.Truncate
	case mainstem.OpRewrite:
		return !f.Rewrite
	case mainstem.OpRemove:
		return !f.Remove
	}
	return false
}

func canceledBefore(e *env) {
	e.seeded()
	before := e.dump(e.log)
	canceled, cancel := context.WithCancel(e.ctx)
	cancel()
	late, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
	defer cancel()
	because := errors.New("the caller's own cause")
	aborted, abort := context.WithCancelCause(e.ctx)
	abort(because)
	expired, cancel := context.WithDeadlineCause(e.ctx, time.Now().Add(-time.Second), because)
	defer cancel()
	for ctx, cause := range map[context.Context]error{
		canceled: context.Canceled, late: context.DeadlineExceeded, aborted: context.Canceled, expired: context.DeadlineExceeded,
	} {
		b := mainstem.NewBatch()
		muchWork(b)
		_, err := e.log.Commit(ctx, b)
		failure := e.kind("commit", err, mainstem.KindCanceled)
		if failure.Outcome != mainstem.NotWritten {
			e.Fatalf("the outcome of %q is %q, want %q", err, failure.Outcome, mainstem.NotWritten)
		}
		if !errors.Is(err, cause) {
			e.Fatalf("commit: %v does not wrap %v", err, cause)
		}
		_, getErr := e.log.Get(ctx, "s", []byte("live"))
		for doing, err := range map[string]error{"commit": err, "get": getErr} {
			if cause == context.DeadlineExceeded {
				e.deadline(doing, err)
			} else if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, context.Canceled) {
				e.Fatalf("%s: %v, want %v and no deadline", doing, err, cause)
			}
		}
		for _, f := range []mainstem.Filter{{Follow: true}, {Follow: true, After: 1 << 60}} {
			_, err = collect(e.log.Feed(ctx, f))
			e.kind("follow", err, mainstem.KindCanceled)
		}
		_, err = collect(e.log.Read(ctx, "s", []byte("live"), mainstem.Versions{Follow: true}))
		e.kind("follow a key", err, mainstem.KindCanceled)
	}
	e.unchanged(before, "after commits that were canceled")
}

// deadline fails unless err says that a deadline passed, and not that the call was
// canceled: to errors.Is and to who reads it.
func (e *env) deadline(doing string, err error) {
	e.Helper()
	e.kind(doing, err, mainstem.KindCanceled)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		e.Fatalf("%s: %v, want %v and not %v", doing, err, context.DeadlineExceeded, context.Canceled)
	}
	if text := err.Error(); !strings.Contains(text, "deadline exceeded") || strings.Contains(text, "canceled") {
		e.Fatalf("%s: the error reads %q, want it to say deadline exceeded", doing, text)
	}
}

func canceledMeanwhile(e *env) {
	e.space("s", mainstem.Policy{})
	const clients, each = 6, 60
	errs := make([]map[string]error, clients)
	e.parallel(clients, func(w int) error {
		errs[w] = map[string]error{}
		for n := range each {
			ctx, cancel := context.WithCancel(e.ctx)
			b, name := mainstem.NewBatch(), fmt.Sprintf("%d.%d", w, n)
			b.Put("s", []byte("k"), []byte(name))
			go cancel() // before, while or after
			_, err := e.log.Commit(ctx, b)
			cancel()
			errs[w][name] = err
			if err != nil && !errors.Is(err, mainstem.ErrCanceled) {
				return fmt.Errorf("%w, want success or Canceled", err)
			}
		}
		return nil
	})
	// A batch whose outcome is unknown may still be on its way: what is committed
	// now comes after it, or it will never come.
	e.put("s", "k", "end")
	there := map[string]bool{}
	for _, r := range e.read("s", "k", mainstem.Versions{}) {
		there[string(r.Value)] = true
	}
	for w := range errs {
		for name, err := range errs[w] {
			switch {
			case err == nil && !there[name]:
				e.Fatalf("batch %s was acknowledged and is not there", name)
			case err != nil && !errors.Is(err, mainstem.ErrUnknownOutcome) && there[name]:
				e.Fatalf("batch %s is there, but its error says that it was not written: %v", name, err)
			}
		}
	}
}

func closedLog(e *env) {
	e.seeded()
	fl := e.follow(mainstem.Filter{After: e.head()})
	for range 2 {
		if err := e.log.Close(); err != nil {
			e.Fatalf("close: %v", err)
		}
	}
	e.kind("a follower of a closed log", fl.ended(), mainstem.KindClosed)
	b := mainstem.NewBatch()
	b.Put("s", []byte("k"), nil)
	_, err := e.attempt(b)
	if failure := e.kind("commit", err, mainstem.KindClosed); failure.Outcome != mainstem.NotWritten {
		e.Fatalf("the outcome of %q is %q, want %q", err, failure.Outcome, mainstem.NotWritten)
	}
	calls := map[string]func() error{
		"get":   func() error { _, err := e.log.Get(e.ctx, "s", []byte("live")); return err },
		"head":  func() error { _, err := e.log.Head(e.ctx); return err },
		"space": func() error { _, err := e.log.Space(e.ctx, "s"); return err },
		"scan":  func() error { _, err := collect(e.log.Scan(e.ctx, "s", mainstem.Range{})); return err },
		"many":  func() error { _, err := collect(e.log.GetMany(e.ctx, "s", manyKeys("live"))); return err },
		"read": func() error {
			_, err := collect(e.log.Read(e.ctx, "s", []byte("live"), mainstem.Versions{}))
			return err
		},
		"feed": func() error { _, err := collect(e.log.Feed(e.ctx, mainstem.Filter{})); return err },
		"follow": func() error {
			_, err := collect(e.log.Feed(e.ctx, mainstem.Filter{Follow: true}))
			return err
		},
		"spaces": func() error {
			for _, err := range e.log.Spaces(e.ctx, "") {
				return err
			}
			return nil
		},
		"create": func() error { return e.log.CreateSpace(e.ctx, "new", mainstem.Policy{}) },
		"alter":  func() error { return e.log.AlterSpace(e.ctx, "s", mainstem.Policy{}) },
		"drop":   func() error { return e.log.DropSpace(e.ctx, "s") },
	}
	for name, call := range calls {
		e.kind(name+" of a closed log", call(), mainstem.KindClosed)
	}
}

func errorsOfReads(e *env) {
	e.seeded()
	_, err := e.log.Get(e.ctx, "s", []byte("nothing"))
	failure := e.kind("get", err, mainstem.KindNotFound)
	if failure.Outcome != mainstem.NoOutcome || failure.Space != "s" || string(failure.Key) != "nothing" {
		e.Fatalf("get of an absent key: %+v, want an error about space s and key nothing without an outcome", failure)
	}
	for doing, err := range map[string]error{
		"get without a key":   second(e.log.Get(e.ctx, "s", nil)),
		"get of a huge key":   second(e.log.Get(e.ctx, "s", make([]byte, mainstem.MaxKey+1))),
		"get many, one empty": second(collect(e.log.GetMany(e.ctx, "s", [][]byte{[]byte("k"), {}}))),
		"read without a key":  second(collect(e.log.Read(e.ctx, "s", nil, mainstem.Versions{}))),
		"read both ways":      second(collect(e.log.Read(e.ctx, "s", []byte("k"), mainstem.Versions{Follow: true, Reverse: true}))),
		"read a negative few": second(collect(e.log.Read(e.ctx, "s", []byte("k"), mainstem.Versions{Limit: -1}))),
		"scan a negative few": second(collect(e.log.Scan(e.ctx, "s", mainstem.Range{Limit: -1}))),
		"feed a negative few": second(collect(e.log.Feed(e.ctx, mainstem.Filter{Limit: -1}))),
	} {
		if failure := e.kind(doing, err, mainstem.KindInvalid); failure.Outcome == mainstem.Unknown {
			e.Fatalf("%s: the outcome of a read is unknown: %v", doing, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
