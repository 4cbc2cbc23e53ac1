package format_test

import (
	"bytes"
	"testing"

	"github.com/mainstemdev/mainstem/internal/format"
)

// FuzzDecoders feeds arbitrary bytes to every decoder: none may panic, and what
// one accepts must mean the same when written again.
func FuzzDecoders(f *testing.F) {
	for _, g := range golden() {
		f.Add(g.bytes)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		fuzzBody(t, p)
		fuzzFeed(t, p)
		fuzzKeys(p)
		if s, err := format.DecodeSpace(p); err == nil {
			if again, err := format.DecodeSpace(format.AppendSpace(nil, &s)); err != nil || !again.Policy.Equal(s.Policy) || again.ID != s.ID {
				t.Errorf("space %+v came back as %+v, %v", s, again, err)
			}
		}
		if c, err := format.DecodeTotals(p); err == nil {
			if again, err := format.DecodeTotals(format.AppendTotals(nil, &c)); err != nil || again != c {
				t.Errorf("totals %+v came back as %+v, %v", c, again, err)
			}
		}
		if c, err := format.DecodeCounters(p); err == nil {
			if again, err := format.DecodeCounters(format.AppendCounters(nil, c)); err != nil || again != c {
				t.Errorf("counters %+v came back as %+v, %v", c, again, err)
			}
		}
		if r, err := format.DecodeReceipt(p); err == nil {
			if again, err := format.DecodeReceipt(format.AppendReceipt(nil, &r)); err != nil || len(again.Versions) != len(r.Versions) {
				t.Errorf("receipt %+v came back as %+v, %v", r, again, err)
			}
		}
		if n, err := format.DecodeFrameNumber(p); err == nil {
			if again, err := format.DecodeFrameNumber(format.AppendFrameNumber(nil, n)); err != nil || again != n {
				t.Fatalf("frame number %d: %d, %v", n, again, err)
			}
		}
		if _, rest, err := format.Effects(p); err == nil {
			for len(rest) > 0 && err == nil {
				before := len(rest)
				var c format.Change
				if c, rest, err = format.NextChange(rest); err == nil && len(rest) >= before {
					t.Fatal("a change without bytes")
				}
				_ = format.CheckChange(c)
			}
		}
		_, _ = format.DecodeIdentity(p)
	})
}

func fuzzBody(t *testing.T, p []byte) {
	b, err := format.DecodeBody(p)
	if err != nil {
		return
	}
	if len(b.Value) > len(p) || b.Size() > int64(len(p)) {
		t.Errorf("%d bytes decode to a record of %d", len(p), b.Size())
	}
	h := b.Headers(nil, true)
	again, err := format.DecodeBody(format.AppendBody(nil, &b, h))
	if err != nil || again.Version != b.Version || again.Position != b.Position || again.Count != b.Count || !bytes.Equal(again.Value, b.Value) {
		t.Errorf("body %+v came back as %+v, %v", b, again, err)
	}
}

func fuzzFeed(t *testing.T, p []byte) {
	for rest := p; len(rest) > 0; {
		_, _, next, err := format.NextFeedEntry(rest)
		if err != nil {
			return
		}
		if len(next) >= len(rest) {
			t.Fatal("a feed entry took no bytes")
		}
		rest = next
	}
}

func fuzzKeys(p []byte) {
	_, _ = format.SlotKey(p)
	_, _, _ = format.SplitVersioned(p)
	_, _ = format.AppendUnescaped(nil, p)
	_, _ = format.FeedPosition(p)
	_, _ = format.DecodeExpiryKey(p)
	_, _, _ = format.DecodeIDOrderKey(p)
	_, _ = format.KeySpace(p)
	_, _ = format.PeekPosition(p)
	_, _, _, _ = format.DecodeClockMark(p[:min(len(p), 9)], p[min(len(p), 9):])
}
