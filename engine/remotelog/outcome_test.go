package remotelog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
)

// put returns a batch that writes one value, with an ID if that is not empty.
func put(id, key, value string) *mainstem.Batch {
	b := mainstem.NewBatch()
	b.ID = id
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte(key), []byte(value))
	return b
}

// wantError fails unless err is a whole error of the contract.
func wantError(t *testing.T, err error, kind mainstem.Kind, outcome mainstem.Outcome) *mainstem.Error {
	t.Helper()
	var e *mainstem.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want one of kind %v", err, kind)
	}
	if e.Kind != kind || e.Outcome != outcome {
		t.Fatalf("error %v: kind %v, outcome %q; want %v, %q", err, e.Kind, e.Outcome, kind, outcome)
	}
	return e
}

func head(t *testing.T, log mainstem.Log) mainstem.Position {
	t.Helper()
	p, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCommitWithoutServerIsNotWritten(t *testing.T) {
	for name, o := range map[string]*remotelog.Options{
		"auto": nil, "sessions": {Transport: remotelog.Sessions}, "http2": {Transport: remotelog.RPC}, "http1": {HTTP1: true},
		"grpc": {Protocol: remotelog.GRPC}, "no retries": {Retries: -1},
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t, "http://"+testport.Address(t), o)
			_, err := log.Commit(t.Context(), put("", "k", "v"))
			wantError(t, err, mainstem.KindUnavailable, mainstem.NotWritten)
			_, err = log.Commit(t.Context(), put("id", "k", "v"))
			wantError(t, err, mainstem.KindUnavailable, mainstem.NotWritten)
			wantError(t, log.CreateSpace(t.Context(), "s", mainstem.Policy{}), mainstem.KindUnavailable, mainstem.NotWritten)
			_, err = log.Head(t.Context())
			wantError(t, err, mainstem.KindUnavailable, mainstem.NoOutcome)
		})
	}
}

func TestCommitToAnotherKindOfServerIsNotWritten(t *testing.T) {
	plain := strings.Replace(serve(t, model.New(nil), nil).URL, "http://", "https://", 1)
	_, err := open(t, plain, nil).Commit(t.Context(), put("", "k", "v"))
	wantError(t, err, mainstem.KindUnavailable, mainstem.NotWritten) // no TLS there

	_, err = open(t, serve(t, model.New(nil), nil).URL+"/elsewhere", nil).Commit(t.Context(), put("", "k", "v"))
	wantError(t, err, mainstem.KindUnsupported, mainstem.NotWritten) // not found
}

func TestLostAnswerLeavesOutcomeUnknown(t *testing.T) {
	for name, o := range map[string]*remotelog.Options{
		"sessions": {Transport: remotelog.Sessions, Retries: -1}, "http2": {Transport: remotelog.RPC}, "http1": {HTTP1: true}, "grpc": {Protocol: remotelog.GRPC},
	} {
		t.Run(name, func(t *testing.T) {
			p, log, behind := proxied(t, o)
			_, err := lostCommit(t, p, log, behind, put("", "k", "v"), func() {})
			wantError(t, err, mainstem.KindUnavailable, mainstem.Unknown)
			if !errors.Is(err, mainstem.ErrUnknownOutcome) {
				t.Errorf("%v is not an unknown outcome", err)
			}
			if head(t, behind) != 1 {
				t.Error("a batch without ID was sent twice")
			}
		})
	}
}

func TestLostAnswerOfBatchWithIDIsFoundAgain(t *testing.T) {
	p, log, behind := proxied(t, nil)
	r, err := lostCommit(t, p, log, behind, put("once", "k", "v"), func() {})
	if err != nil || !r.Duplicate || r.First != 1 || r.Versions[0] != 1 {
		t.Errorf("receipt %+v, %v; want that of the first try", r, err)
	}
	if head(t, behind) != 1 {
		t.Error("the batch was written twice")
	}
}

// The last try was certainly not written; the first may have been.
func TestOutcomeIsThatOfAllTries(t *testing.T) {
	p, log, behind := proxied(t, nil)
	_, err := lostCommit(t, p, log, behind, put("once", "k", "v"), p.close)
	wantError(t, err, mainstem.KindUnavailable, mainstem.Unknown)
}

// A condition that no longer holds at the second try says nothing about the first.
func TestConflictAfterLostTryLeavesOutcomeUnknown(t *testing.T) {
	p, log, behind := proxied(t, &remotelog.Options{HTTP1: true}) // nothing but the request is on the way
	e := wantError(t, lostRequest(t, p, log, behind, "once"), mainstem.KindConflict, mainstem.Unknown)
	if e.Got != 1 || !e.GotLive || e.Want.Test != mainstem.TestAbsent {
		t.Errorf("the conflict says %+v", e)
	}
}

func TestReadIsTriedAgainOnNewConnection(t *testing.T) {
	p, log, _ := proxied(t, nil)
	if _, err := log.Commit(t.Context(), put("", "k", "v")); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		p.cut()
		if _, err := log.Get(t.Context(), "s", []byte("k")); err != nil {
			t.Fatalf("get after a cut: %v", err)
		}
		p.cut()
		for _, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
			if err != nil {
				t.Fatalf("scan after a cut: %v", err)
			}
		}
	}
}

func TestCanceledBeforeAndAfterSending(t *testing.T) {
	behind := &gated{Log: model.New(nil), entered: make(chan struct{}), leave: make(chan struct{})}
	log := open(t, serve(t, behind, nil).URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := log.Commit(ctx, put("", "k", "v"))
	e := wantError(t, err, mainstem.KindCanceled, mainstem.NotWritten)
	if !errors.Is(e, context.Canceled) {
		t.Errorf("the cause is %v", e.Err)
	}

	for name, stop := range map[string]func() (context.Context, error){
		"cancel": func() (context.Context, error) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-behind.entered; cancel() }()
			return ctx, context.Canceled
		},
		"deadline": func() (context.Context, error) {
			ctx := late{t.Context(), make(chan struct{})}
			go func() { <-behind.entered; close(ctx.passed) }()
			return ctx, context.DeadlineExceeded
		},
	} {
		ctx, cause := stop()
		_, err := log.Commit(ctx, put("", name, "v"))
		e := wantError(t, err, mainstem.KindCanceled, mainstem.Unknown)
		if !errors.Is(e, cause) {
			t.Errorf("%s: the cause is %v", name, e.Err)
		}
	}
	close(behind.leave)
}

// late is a context whose deadline passes when the test says so.
type late struct {
	context.Context
	passed chan struct{}
}

func (c late) Done() <-chan struct{} { return c.passed }

func (c late) Err() error {
	select {
	case <-c.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// gated is a log whose commits wait, and heed nothing meanwhile.
type gated struct {
	mainstem.Log
	entered, leave chan struct{}
	left           chan error // if set: what became of the commits
}

func (g *gated) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	g.entered <- struct{}{}
	<-g.leave
	r, err := g.Log.Commit(context.WithoutCancel(ctx), b)
	if g.left != nil {
		g.left <- err
	}
	return r, err
}

func TestCloseWaitsForCommit(t *testing.T) {
	behind := &gated{Log: model.New(nil), entered: make(chan struct{}), leave: make(chan struct{})}
	log := open(t, serve(t, behind, nil).URL, nil)
	done := make(chan error)
	go func() {
		_, err := log.Commit(t.Context(), put("", "k", "v"))
		done <- err
	}()
	<-behind.entered
	closed := make(chan struct{})
	go func() { defer close(closed); _ = log.Close() }()
	testkit.Eventually(t, "the log is closed to new calls", func() bool {
		_, err := log.Head(t.Context())
		return errors.Is(err, mainstem.ErrClosed)
	})
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(behind.leave)
	if err := <-done; err != nil {
		t.Errorf("a commit that was running: %v", err)
	}
	<-closed
	_, err := log.Commit(t.Context(), put("", "k", "v"))
	wantError(t, err, mainstem.KindClosed, mainstem.NotWritten)
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	behind := &gated{Log: model.New(nil), entered: make(chan struct{}), leave: make(chan struct{})}
	log := open(t, serve(t, behind, nil).URL, nil)
	log.SetGrace(10 * time.Millisecond)
	done := make(chan error)
	go func() {
		_, err := log.Commit(t.Context(), put("", "k", "v"))
		done <- err
	}()
	<-behind.entered
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, <-done, mainstem.KindClosed, mainstem.Unknown)
	close(behind.leave)
}
