package format_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/internal/format"
)

var (
	journalSegment = format.Segment{Number: 7, Journal: [16]byte{1, 2, 3}, Last: 70_000, Size: 1 << 20, PreviousEnd: 4096, PreviousSum: 0xabcdef01}
	journalFrame   = format.Frame{Previous: 0xabcdef01, Stable: 4096, Count: 3, First: 70_001, Time: 1_700_000_000_000_000_000, Clock: 1_699_999_999_999_999_700}
)

// TestGoldenJournal pins the bytes of a journal. A difference means that journals that
// were written can no longer be read: raise format.JournalFormat instead.
func TestGoldenJournal(t *testing.T) {
	header, sum := format.AppendSegment(nil, &journalSegment)
	f := journalFrame
	frame, fsum := format.AppendFrame(nil, journalSegment.Seed(), &f, []byte("effects of a frame"))
	f.Count = 0
	mark, _ := format.AppendFrame(nil, journalSegment.Seed(), &f, nil)
	got := fmt.Sprintf("segment, without the zeros at its end: %s\nits checksum: %08x\nframe: %s\nits checksum: %08x\nmark: %s\n",
		hex.EncodeToString(header[:60]), sum, hex.EncodeToString(frame), fsum, hex.EncodeToString(mark))
	compare(t, "testdata/journal1.golden", got)
}

func TestJournalRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := format.Frame{
			Previous: rapid.Uint32().Draw(t, "previous"),
			Stable:   rapid.Uint32Max(format.MaxJournalSegment/8).Draw(t, "stable") * 8,
			Count:    rapid.Uint32().Draw(t, "count"),
			First:    rapid.Uint64Range(1, 1<<63).Draw(t, "first"),
			Time:     rapid.Int64().Draw(t, "time"),
			Clock:    rapid.Int64().Draw(t, "clock"),
		}
		effects := rapid.SliceOf(rapid.Byte()).Draw(t, "effects")
		seed := rapid.Uint32().Draw(t, "seed")
		p, sum := format.AppendFrame(nil, seed, &want, effects)
		if int64(len(p)) != format.FrameSize(int64(len(effects))) || len(p)%8 != 0 {
			t.Fatalf("%d bytes of effects take %d", len(effects), len(p))
		}
		got, again, err := format.DecodeFrame(p, seed, int64(len(p)))
		if err != nil || got != want || again != sum || !got.CheckEffects(p[format.JournalFrame:]) {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
		other := rapid.Uint32().Draw(t, "other seed")
		if _, _, err := format.DecodeFrame(p, other, int64(len(p))); (err == nil) != (seed == other) {
			t.Fatalf("under another seed: %v", err)
		}
		if _, _, err := format.DecodeFrame(p, seed, int64(len(p))-1); !errors.Is(err, format.ErrCorrupt) {
			t.Fatalf("in too little space: %v", err)
		}
	})
}

// TestSeedsDiffer looks at the segments of a journal that were recycled often.
func TestSeedsDiffer(t *testing.T) {
	seen := map[uint32]uint64{}
	s := journalSegment
	for s.Number = 1; s.Number < 1<<17; s.Number++ {
		if other, ok := seen[s.Seed()]; ok {
			t.Fatalf("segments %d and %d have the same seed", s.Number, other)
		}
		seen[s.Seed()] = s.Number
	}
}

// TestSegmentHeader finds every changed byte.
func TestSegmentHeader(t *testing.T) {
	p, _ := format.AppendSegment(nil, &journalSegment)
	for i := range p {
		q := append([]byte{}, p...)
		q[i] ^= 1
		if _, _, err := format.DecodeSegment(q); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	if _, _, err := format.DecodeSegment(p[:len(p)-1]); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("cut short: %v", err)
	}
	newer := append([]byte{}, p...)
	newer[4]++
	binary.LittleEndian.PutUint32(newer, crc32.Checksum(newer[4:], crc32.MakeTable(crc32.Castagnoli)))
	if _, _, err := format.DecodeSegment(newer); !errors.Is(err, format.ErrNewSegment) {
		t.Errorf("of a later format: %v", err)
	}
	if got, _, err := format.DecodeSegment(p); err != nil || got != journalSegment {
		t.Errorf("%+v came back as %+v, %v", journalSegment, got, err)
	}
}

// FuzzJournal feeds the decoders of the journal arbitrary bytes.
func FuzzJournal(f *testing.F) {
	header, _ := format.AppendSegment(nil, &journalSegment)
	h := journalFrame
	frame, _ := format.AppendFrame(nil, 9, &h, []byte("effects"))
	f.Add(header, uint32(0), int64(512))
	f.Add(frame, uint32(9), int64(1000))
	f.Fuzz(func(t *testing.T, p []byte, seed uint32, space int64) {
		if s, sum, err := format.DecodeSegment(p); err == nil {
			again, sum2 := format.AppendSegment(nil, &s)
			if back, _, err := format.DecodeSegment(again); err != nil || back != s || sum2 != sum && string(again) == string(p[:format.JournalHeader]) {
				t.Errorf("segment %+v came back as %+v, %v", s, back, err)
			}
		}
		fr, _, err := format.DecodeFrame(p, seed, space)
		if err != nil {
			return
		}
		if fr.Size() > space || fr.First == 0 {
			t.Errorf("frame %+v in %d bytes", fr, space)
		}
		if end := fr.Size(); end <= int64(len(p)) && fr.CheckEffects(p[format.JournalFrame:end]) {
			again, _ := format.AppendFrame(nil, seed, &fr, p[format.JournalFrame:][:fr.Length])
			if string(again) != string(p[:end]) {
				t.Errorf("frame %+v is not written as it was read", fr)
			}
		}
	})
}
