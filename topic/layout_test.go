package topic

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// These bytes are stored in logs. They must never be read differently, and may be written
// differently only with a new format number.
func TestGoldenLayout(t *testing.T) {
	id := ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	m := meta{ID: id, Partitions: 3, Config: Config{"retention.ms": "5"}, Created: time.Unix(1_700_000_000, 5).UTC()}
	sk := stateKey(id, 258)
	const idHex = "0102030405060708090a0b0c0d0e0f10"
	for _, x := range []struct {
		name string
		got  []byte
		want string
	}{
		{"partition", partition.Key(258), "00000102"},
		{"meta key", metaKey, "ff6d657461"},
		{"id key", idKey(id), "ff6964" + idHex},
		{"state key", sk, idHex + "00000102"},
		{"extent key", extentKey(sk, 258), idHex + "00000102" + "0000000000000102"},
		{"state", state{start: 1, cleaned: 2, horizon: noHorizon}.encode(), "01" + "0000000000000001" + "0000000000000002" + "7fffffffffffffff"},
		{"extent", (&extent{base: 9, next: 10, bytes: 2, batches: 3, newest: 4, stamp: -1, stamped: 6}).encode(), "01" + "000000000000000a" + "0000000000000002" + "0000000000000003" + "0000000000000004" + "ffffffffffffffff" + "0000000000000006"},
		{"meta", m.encode(), hex.EncodeToString([]byte(`{"format":1,"id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":3,"config":{"retention.ms":"5"},"created":"2023-11-14T22:13:20.000000005Z"}`))},
	} {
		if got := hex.EncodeToString(x.got); got != x.want {
			t.Errorf("%s\ngot  %s\nwant %s", x.name, got, x.want)
		}
	}
	if space := Space("orders"); space != "topic/orders" {
		t.Errorf("space %s", space)
	}
}

// Decoders return the values that were encoded.
func TestLayoutRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		positive := rapid.Int64Range(0, 1<<61)
		s := state{start: positive.Draw(t, "start"), cleaned: positive.Draw(t, "cleaned"), horizon: rapid.Int64().Draw(t, "horizon")}
		if got, err := decodeState(s.encode()); err != nil || got != s {
			t.Fatalf("%+v, %v", got, err)
		}
		e := extent{base: positive.Draw(t, "base"), bytes: positive.Draw(t, "bytes"), batches: positive.Draw(t, "batches"), newest: rapid.Int64().Draw(t, "newest"), stamp: rapid.Int64().Draw(t, "stamp"), saved: true}
		e.next = e.base + 1 + positive.Draw(t, "offsets")
		if got, err := decodeExtent(e.base, e.encode()); err != nil || got != e {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

// For any bytes, decoding returns an error or a value that is encoded to the same bytes.
func FuzzLayout(f *testing.F) {
	f.Add((&meta{Partitions: 1}).encode())
	f.Add(state{}.encode())
	f.Add((&extent{next: 1}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeState(b); err == nil && !bytes.Equal(s.encode(), b) {
			t.Errorf("state %x is written as %x", b, s.encode())
		}
		if e, err := decodeExtent(0, b); err == nil && !bytes.Equal(e.encode(), b) {
			t.Errorf("extent %x is written as %x", b, e.encode())
		}
		if m, err := decodeMeta(b); err == nil {
			if again, err := decodeMeta(m.encode()); err != nil || again.ID != m.ID || again.Partitions != m.Partitions {
				t.Errorf("meta %s is written as %s: %v", b, m.encode(), err)
			}
		}
		extentBase(b, 20)
		partitionOf(b)
	})
}

// Values under the keys of this package are checked when they are read.
func TestDamagedIndex(t *testing.T) {
	log := testengines.Memory(t)
	c := open(t, log, nil)
	tp := create(t, c, "x", Spec{Config: Config{RetentionMs: "-1"}})
	mustAppend(t, tp, 0, batch(0, rec{value: "v"}))
	if err := c.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	sk := stateKey(tp.ID(), 0)
	for _, x := range []struct {
		name       string
		key, value []byte
	}{
		{"state of another format", sk, append([]byte{2}, state{}.encode()[1:]...)},
		{"short state", sk, []byte{1}},
		{"negative start", sk, state{start: -1}.encode()},
		{"short extent", extentKey(sk, 0), []byte{1}},
		{"extent that ends before it begins", extentKey(sk, 0), (&extent{}).encode()},
		{"gap", extentKey(sk, 50), (&extent{next: 60}).encode()},
		{"foreign key", append(sk, 1), nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			old, oldErr := log.Get(t.Context(), IndexSpace, x.key)
			b := mainstem.NewBatch()
			b.Put(IndexSpace, x.key, x.value)
			if _, err := log.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if _, err := open(t, log, nil).Describe(t.Context(), "x"); !errors.Is(err, mainstem.ErrCorrupt) {
				t.Errorf("described with %v", err)
			}
			b.Reset()
			if oldErr != nil {
				b.Delete(IndexSpace, x.key)
			} else {
				b.Put(IndexSpace, x.key, old.Value)
			}
			if _, err := log.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		})
	}
	if _, err := open(t, log, nil).Describe(t.Context(), "x"); err != nil {
		t.Errorf("repaired: %v", err)
	}
	for _, value := range []string{"{", `{"format":2}`, `{"format":1,"partitions":0}`, `{"format":1,"partitions":1,"config":{"retention.ms":"x"}}`} {
		b := mainstem.NewBatch()
		b.Put(Space("x"), metaKey, []byte(value))
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Topic(t.Context(), "x"); !errors.Is(err, mainstem.ErrCorrupt) {
			t.Errorf("description %s: %v", value, err)
		}
	}
}

// All data is there after the directory was closed and opened again.
func TestReopenDirectory(t *testing.T) {
	dir, ck := t.TempDir(), &testkit.Clock{}
	var id ID
	for round := range int64(4) {
		log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(log, &Options{Every: -1, Now: ck.Now})
		if err != nil {
			t.Fatal(err)
		}
		tp, err := c.Ensure(t.Context(), "x", Spec{Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			id = tp.ID()
		}
		if tp.ID() != id {
			t.Errorf("round %d: another ID", round)
		}
		a := mustAppend(t, tp, 1, batch(Gzip, rec{ms: ck.Now().UnixMilli(), value: "a"}, rec{ms: ck.Now().UnixMilli(), value: "b"}, rec{ms: ck.Now().UnixMilli(), value: "c"}))
		if a.Base != 3*round {
			t.Errorf("round %d: base %d", round, a.Base)
		}
		if start, err := tp.DeleteRecords(t.Context(), 1, 3*round+1); err != nil || start != 3*round+1 {
			t.Errorf("round %d: start %d, %v", round, start, err)
		}
		got := all(t, tp, nil)[1]
		if len(got) != 2 || got[0].Offset != 3*round+1 || string(got[1].Value) != "c" {
			t.Errorf("round %d: %v", round, got)
		}
		if err := errors.Join(c.Upkeep(t.Context()), c.Close(), log.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
