package mainstem_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

func TestErrorsMatchTheirKind(t *testing.T) {
	for kind, sentinel := range map[mainstem.Kind]error{
		mainstem.KindNotFound: mainstem.ErrNotFound, mainstem.KindExists: mainstem.ErrExists,
		mainstem.KindConflict: mainstem.ErrConflict, mainstem.KindInvalid: mainstem.ErrInvalid,
		mainstem.KindDenied: mainstem.ErrDenied, mainstem.KindCanceled: mainstem.ErrCanceled,
		mainstem.KindClosed: mainstem.ErrClosed, mainstem.KindCorrupt: mainstem.ErrCorrupt,
		mainstem.KindUnavailable: mainstem.ErrUnavailable, mainstem.KindUnsupported: mainstem.ErrUnsupported,
	} {
		err := fmt.Errorf("outer: %w", &mainstem.Error{Kind: kind, Err: io.EOF})
		if !errors.Is(err, sentinel) || mainstem.KindOf(err) != kind || !errors.Is(err, io.EOF) {
			t.Errorf("%v: does not match its sentinel, kind or cause", err)
		}
		if other := mainstem.ErrNotFound; kind != mainstem.KindNotFound && errors.Is(err, other) {
			t.Errorf("%v matches %v", err, other)
		}
		if back, ok := mainstem.ParseKind(kind.String()); !ok || back != kind {
			t.Errorf("%v parses as %v", kind, back)
		}
	}
	unknown := &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.Unknown}
	if !errors.Is(unknown, mainstem.ErrUnknownOutcome) || errors.Is(&mainstem.Error{Outcome: mainstem.NotWritten}, mainstem.ErrUnknownOutcome) {
		t.Error("the sentinel of unknown outcomes matches the wrong errors")
	}
}

func TestDurabilityRoundTrip(t *testing.T) {
	for _, d := range []mainstem.Durability{mainstem.DefaultDurability, mainstem.Fsync, mainstem.OS, mainstem.Interval(250 * time.Millisecond)} {
		back, err := mainstem.ParseDurability(d.String())
		if err != nil || back != d {
			t.Errorf("%v came back as %v, %v", d, back, err)
		}
	}
	for _, s := range []string{"always", "interval", "interval=", "interval=5", "interval=10us", "interval=-1s", "FSYNC"} {
		if d, err := mainstem.ParseDurability(s); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), s) {
			t.Errorf("%q parses as %v, %v", s, d, err)
		}
	}
}

func TestPolicyAlterations(t *testing.T) {
	bounded, all := mainstem.Policy{History: 1}, mainstem.Policy{}
	for _, c := range []struct {
		from, to mainstem.Policy
		ok       bool
	}{
		{bounded, mainstem.Policy{History: 5}, true},
		{bounded, all, false},
		{all, bounded, false},
		{all, mainstem.Policy{NoFeed: true}, false},
		{all, mainstem.Policy{MaxAge: time.Hour, MaxBytes: 1}, true},
		{all, mainstem.Policy{MaxAge: -1}, false},
	} {
		if err := c.from.CanAlter(c.to); (err == nil) != c.ok {
			t.Errorf("%+v to %+v: %v", c.from, c.to, err)
		}
	}
	if all.Equal(bounded) || !all.Equal(mainstem.Policy{Metadata: map[string]string{}}) {
		t.Error("policies compare wrongly")
	}
}

func TestBatchKeepsItsFirstFailure(t *testing.T) {
	b := mainstem.NewBatch()
	first := errors.New("first")
	b.Fail(first)
	b.Fail(errors.New("second"))
	if err := b.Validate(mainstem.Limits{}.WithDefaults()); err != first {
		t.Errorf("got %v", err)
	}
	b.ID, b.Durability = "id", mainstem.OS
	b.Ensure("s", mainstem.Policy{})
	b.Ensure("s", mainstem.Policy{History: 1})
	if len(b.Ensures()) != 1 || b.Ensures()[0].Policy.History != 0 {
		t.Errorf("a space is ensured as it was asked for first; got %+v", b.Ensures())
	}
	b.Put("s", []byte("k"), nil)
	b.Reset()
	if b.Err() != nil || b.ID != "" || b.Durability != mainstem.DefaultDurability || b.Len() != 0 || len(b.Ensures()) != 0 || len(b.Conditions()) != 0 {
		t.Errorf("after Reset: %+v", b)
	}
}

func TestRecordCloneSharesNothing(t *testing.T) {
	r := mainstem.Record{Key: []byte("k"), Value: []byte{}, Headers: mainstem.Headers{{Name: "a", Value: []byte("1")}, {Name: "nil"}}}
	c := r.Clone()
	r.Key[0], r.Headers[0].Value[0] = 'x', 'x'
	if string(c.Key) != "k" || string(c.Headers[0].Value) != "1" || c.Value == nil || c.Headers[1].Value != nil {
		t.Errorf("clone is %+v", c)
	}
	if v, ok := c.Headers.Get("a"); !ok || string(v) != "1" {
		t.Errorf("header a is %q, %v", v, ok)
	}
	if _, ok := c.Headers.Get("b"); ok {
		t.Error("found a header that is not there")
	}
}

func TestBatchesAllocateOnceForAFewOfEach(t *testing.T) {
	space, key := []string{"a", "b", "c", "d"}, []byte("k")
	got := testing.AllocsPerRun(100, func() {
		b := mainstem.NewBatch()
		for i := range 4 {
			b.Ensure(space[i], mainstem.Policy{})
			b.IfAbsent(space[i], key)
			b.IfVersion(space[i], key, 1)
			b.Put(space[i], key, nil)
		}
	})
	if got > 4 { // the batch, spaces, conditions and writes
		t.Errorf("%v allocations", got)
	}
}
