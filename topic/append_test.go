package topic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func TestAppendRefuses(t *testing.T) {
	ck := &testkit.Clock{}
	now := ck.Now().UnixMilli()
	c := open(t, testengines.Memory(t), &Options{Now: ck.Now})
	hour := time.Hour.Milliseconds()
	for _, x := range []struct {
		name   string
		config Config
		batch  []byte
		reason recordbatch.Reason
		text   string
	}{
		{"garbage", nil, []byte("hello"), recordbatch.Corrupt, "5 bytes"},
		{"flipped bit", nil, flip(batch(0, rec{value: "v"})), recordbatch.Corrupt, "CRC"},
		{"damaged, gzip", nil, damaged(Gzip), recordbatch.Corrupt, "decompressed (gzip)"},
		{"damaged, snappy", nil, damaged(Snappy), recordbatch.Corrupt, "decompressed (snappy)"},
		{"damaged, lz4", nil, damaged(LZ4), recordbatch.Corrupt, "decompressed (lz4)"},
		{"damaged, zstd", nil, damaged(Zstd), recordbatch.Corrupt, "decompressed (zstd)"},
		{"two", nil, append(batch(0, rec{value: "v"}), batch(0, rec{value: "v"})...), recordbatch.BadRecord, "one batch"},
		{"too large", Config{MaxMessageBytes: "70"}, batch(0, rec{value: "long enough"}), recordbatch.TooLarge, MaxMessageBytes},
		{"no size is allowed", Config{MaxMessageBytes: "0"}, batch(0, rec{value: "v"}), recordbatch.TooLarge, "limit is 0"},
		{"no key", Config{CleanupPolicy: "compact"}, batch(0, rec{value: "v"}), recordbatch.BadRecord, "no key"},
		{"no key, compressed", Config{CleanupPolicy: "compact"}, batch(Zstd, rec{key: "k", value: strings.Repeat("v", 100)}, rec{value: strings.Repeat("v", 100)}), recordbatch.BadRecord, "no key"},
		{"far future", nil, batch(0, rec{ms: now + hour + 1, value: "v"}), recordbatch.BadTimestamp, TimestampAfter},
		{"far past", Config{TimestampBefore: "1000"}, batch(0, rec{ms: now - 1001, value: "v"}), recordbatch.BadTimestamp, TimestampBefore},
		{"marker", nil, recordbatch.Marker{ProducerID: 1, Timestamp: now}.Batch(), recordbatch.BadRecord, "control"},
		{"log append time", nil, stamped(batch(0, rec{ms: now, value: "v"}), now), recordbatch.BadTimestamp, TimestampType},
	} {
		t.Run(x.name, func(t *testing.T) {
			name := strings.ReplaceAll(strings.ReplaceAll(x.name, " ", "-"), ",", "")
			tp := create(t, c, name, Spec{Config: x.config})
			_, err := tp.Append(t.Context(), 0, x.batch)
			var why *recordbatch.Error
			if !errors.Is(err, mainstem.ErrInvalid) || !errors.As(err, &why) || why.Reason != x.reason || !strings.Contains(err.Error(), x.text) {
				t.Errorf("got %v, want reason %v and %q", err, x.reason, x.text)
			}
			if end, err := tp.End(t.Context(), 0); end != 0 || err != nil {
				t.Errorf("the partition ends at %d, %v", end, err)
			}
		})
	}
}

// damaged returns a batch whose compressed records cannot be decompressed, with a right checksum:
// the client has damaged them before it computed the checksum.
func damaged(c Codec) []byte {
	b := batch(c, rec{key: "k", value: strings.Repeat("v", 500)})
	clear(b[recordbatch.HeaderSize:])
	binary.BigEndian.PutUint32(b[17:], recordbatch.Checksum(b))
	return b
}

func flip(b []byte) []byte { b[len(b)-1] ^= 1; return b }

func stamped(b []byte, ms int64) []byte { recordbatch.Stamp(b, ms); return b }

// The stored bytes are those received, every offset counts, and the caller's bytes are not changed.
func TestAppendStoresAsReceived(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{Partitions: 300})
		sent := batch(Gzip, rec{ms: 1, key: "k", value: "v"}, rec{ms: 2, value: strings.Repeat("w", 500)})
		before := bytes.Clone(sent)
		for _, p := range []int32{0, 1, 255, 256, 299} {
			for base := int64(0); base < 6; base += 2 {
				a := mustAppend(t, tp, p, sent)
				if a.Base != base || a.Next != base+2 || a.Partition != p || !a.Time.IsZero() {
					t.Errorf("appended %+v, want base %d", a, base)
				}
			}
			n := 0
			for r, err := range log.Read(t.Context(), Space("x"), partition.Key(p), mainstem.Versions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; !bytes.Equal(r.Value, before) || r.Count != 2 || r.Version != mainstem.Version(2*n) {
					t.Errorf("record %d has version %d, count %d, equal bytes %v", n, r.Version, r.Count, bytes.Equal(r.Value, before))
				}
			}
		}
		if !bytes.Equal(sent, before) {
			t.Error("the caller's bytes were changed")
		}
	})
}

func TestLogAppendTime(t *testing.T) {
	ck := &testkit.Clock{}
	c := open(t, testengines.Memory(t), &Options{Now: ck.Now})
	tp := create(t, c, "x", Spec{Config: Config{TimestampType: "LogAppendTime"}})
	sent := batch(Snappy, rec{ms: 5, value: "v"}, rec{ms: 1 << 50, value: "w"})
	before := bytes.Clone(sent)
	a := mustAppend(t, tp, 0, sent)
	if !a.Time.Equal(ck.Now()) {
		t.Errorf("log append time %v, want %v", a.Time, ck.Now())
	}
	if !bytes.Equal(sent, before) {
		t.Error("the caller's bytes were changed")
	}
	ck.Advance(time.Second)
	p, err := tp.Producer(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.ProduceSync(t.Context(), Record{Value: []byte("p"), Time: time.UnixMilli(7)}); err != nil {
		t.Fatal(err)
	}
	got := all(t, tp, nil)[0]
	for i, want := range []time.Time{a.Time, a.Time, ck.Now()} {
		if !got[i].Time.Equal(want) {
			t.Errorf("record %d has time %v, want %v", i, got[i].Time, want)
		}
	}
}

// AppendTo shares a commit with other writes, and with other record batches.
func TestAppendTogether(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp, other := create(t, c, "x", Spec{Partitions: 2}), create(t, c, "y", Spec{})
		good := batch(0, rec{value: "v"}, rec{value: "w"})
		many := mainstem.NewBatch()
		slots := []partition.Slot{tp.AppendTo(many, 0, good), tp.AppendTo(many, 1, good), tp.AppendTo(many, 0, good)}
		r, err := log.Commit(t.Context(), many)
		if err != nil {
			t.Fatal(err)
		}
		if a, b, c := slots[0].In(r), slots[1].In(r), slots[2].In(r); a.Base != 0 || b.Base != 0 || c.Base != 2 || c.Partition != 0 {
			t.Errorf("%+v, %+v, %+v", a, b, c)
		}
		many.Reset()
		tp.AppendTo(many, 0, good)
		tp.AppendTo(many, 1, good[:70])
		if _, err := log.Commit(t.Context(), many); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("one bad batch of two: %v", err)
		}
		b := mainstem.NewBatch()
		b.Ensure("kv", mainstem.Policy{})
		b.Put("kv", []byte("k"), []byte("v"))
		slot := tp.AppendTo(b, 1, good)
		if _, err := other.Partition(7); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("partition 7: %v", err)
		}
		published := other.PublishTo(b, Record{Key: []byte("a"), Value: []byte("1")}, Record{Key: []byte("b"), Value: []byte("2")})
		if r, err = log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if a := slot.In(r); a.Base != 2 || a.Partition != 1 {
			t.Errorf("%+v", a)
		}
		if a := published[0].In(r); a.Base != 0 || a.Next != 2 {
			t.Errorf("%+v", a)
		}
		// If a condition does not hold, nothing is written.
		b = mainstem.NewBatch()
		b.IfAbsent("kv", []byte("k"))
		other.PublishTo(b, Record{Key: []byte("a"), Value: []byte("3")})
		if _, err := log.Commit(t.Context(), b); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("commit: %v", err)
		}
		if end, err := other.End(t.Context(), 0); end != 2 || err != nil {
			t.Errorf("the topic ends at %d, %v", end, err)
		}
	})
}

func TestPublish(t *testing.T) {
	ck := &testkit.Clock{}
	log := testengines.Memory(t)
	c := open(t, log, &Options{Now: ck.Now})
	tp := create(t, c, "x", Spec{Partitions: 4, Config: Config{MaxMessageBytes: "300"}})
	b := mainstem.NewBatch()
	var records []Record
	for i := range 20 {
		records = append(records, Record{Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{byte(i)}, 100)})
	}
	slots := tp.PublishTo(b, records...)
	r, err := log.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for _, s := range slots {
		a := s.In(r)
		n += a.Next - a.Base
	}
	if n != 20 || len(slots) < 10 { // two of them fit in 300 bytes
		t.Errorf("%d record batches hold %d records", len(slots), n)
	}
	for p, rs := range all(t, tp, nil) {
		for _, r := range rs {
			if KeyPartition(r.Key, 4) != p || !bytes.Equal(r.Value, bytes.Repeat(r.Key, 100)) || !r.Time.Equal(ck.Now()) {
				t.Errorf("partition %d has %v", p, r)
			}
		}
	}
	b = mainstem.NewBatch()
	if s := tp.PublishPartitionTo(b, 3, Record{Value: []byte("a")}, Record{Key: []byte("k")}); len(s) != 1 || b.Len() != 1 {
		t.Errorf("%d slots, %d writes", len(s), b.Len())
	}
	for _, bad := range [][]Record{{{Value: make([]byte, 400)}}, {{Time: ck.Now().Add(2 * time.Hour)}}} {
		b := mainstem.NewBatch()
		tp.PublishTo(b, bad...)
		if _, err := log.Commit(t.Context(), b); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

func TestPublishAtOnce(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		tp := create(t, open(t, log, nil), "x", Spec{Partitions: 2})
		ctx := t.Context()
		got, err := tp.PublishPartition(ctx, 1, Record{Value: []byte("a")}, Record{Value: []byte("b")})
		if err != nil || len(got) != 1 || got[0].Partition != 1 || got[0].Base != 0 || got[0].Next != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		got, err = tp.Publish(ctx, Record{Key: []byte("k"), Value: []byte("c")})
		if err != nil || len(got) != 1 || got[0].Partition != KeyPartition([]byte("k"), 2) {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := tp.PublishPartition(ctx, 2, Record{Value: []byte("d")}); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("partition 2 of 2: %v", err)
		}
		o := tp.Offsets("g")
		if err := o.CommitOffset(ctx, 1, Offset{Next: 2, LeaderEpoch: 3, Metadata: "m"}); err != nil {
			t.Fatal(err)
		}
		if at, err := o.Load(ctx); err != nil || at[1] != (Offset{Next: 2, LeaderEpoch: 3, Metadata: "m"}) {
			t.Errorf("%+v, %v", at, err)
		}
		if err := o.Forget(ctx, 1); err != nil {
			t.Fatal(err)
		}
		if at, err := o.Load(ctx); err != nil || len(at) != 0 {
			t.Errorf("%+v, %v", at, err)
		}
	})
}
