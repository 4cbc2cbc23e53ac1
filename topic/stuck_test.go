package topic

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// wide returns a batch that a compressor with a larger window than that of this package has made
// small.
func wide(t testing.TB, records ...rec) []byte {
	t.Helper()
	plain := batch(Uncompressed, records...)
	h, err := recordbatch.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	e, err := zstd.NewWriter(nil, zstd.WithWindowSize(4<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	h.Records = e.EncodeAll(plain[recordbatch.HeaderSize:], nil)
	h.Attributes |= int16(Zstd)
	h.Length -= int32(len(plain) - recordbatch.HeaderSize - len(h.Records))
	h.CRC = int32(recordbatch.Checksum(h.AppendTo(nil)))
	return h.AppendTo(nil)
}

// A batch that would become too large stays as it is. So do the tombstones of the keys of which it
// has older records, and no other ones: a value that was deleted does not reappear.
func TestTombstoneOfABatchThatCannotBeRewritten(t *testing.T) {
	ck := &testkit.Clock{}
	now := ck.Now().UnixMilli()
	c := open(t, testengines.Memory(t), &Options{Now: ck.Now, MaxMessage: 400_000})
	tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact", DeleteRetention: "1000", MaxMessageBytes: "400000"}})
	noise := make([]byte, 300_000)
	random := rand.NewChaCha8([32]byte{})
	if _, err := random.Read(noise); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, tp, 0, wide(t, rec{ms: now, key: "k", value: "old"}, rec{ms: now, key: "x", value: string(noise)}, rec{ms: now, key: "y", value: string(noise)})) // 0 1 2
	mustAppend(t, tp, 0, batch(0, rec{ms: now, key: "other", value: "old"}))                                                                                        // 3
	mustAppend(t, tp, 0, batch(0, rec{ms: now, key: "k", null: true}))                                                                                              // 4
	mustAppend(t, tp, 0, batch(0, rec{ms: now, key: "other", null: true}))                                                                                          // 5
	want := func(want ...string) {
		t.Helper()
		mustAppend(t, tp, 0, batch(0, rec{ms: now, key: "z", value: "newest"}))
		mustCompact(t, tp)
		var got []string
		for _, r := range all(t, tp, nil)[0] {
			if key := string(r.Key); key == "k" || key == "other" {
				got = append(got, line(r))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the partition holds %v, want %v", got, want)
		}
	}
	want("0 k=old", "4 k=-", "5 other=-")
	for range 3 {
		ck.Advance(1001 * time.Millisecond)
		want("0 k=old", "4 k=-")
	}
	mustAppend(t, tp, 0, batch(0, rec{ms: now, key: "k", null: true})) // 10
	want("0 k=old", "10 k=-")
	ck.Advance(1001 * time.Millisecond)
	want("0 k=old", "10 k=-")
	// When nothing of it is left, the batch is removed, and no tombstone of the key keeps another.
	mustAppend(t, tp, 0, batch(0, rec{ms: now, key: "x", value: "1"}, rec{ms: now, key: "y", value: "1"}, rec{ms: now, key: "k", null: true}))
	want("15 k=-")
	ck.Advance(1001 * time.Millisecond)
	want()
}
