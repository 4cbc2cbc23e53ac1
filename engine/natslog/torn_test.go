package natslog

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// A power cut may leave the beginning of a frame in the stream. Nobody ever sees it,
// the log goes on, and a sweep removes it.
func TestTornFrame(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	o := &Options{SweepEvery: -1, Grace: time.Nanosecond}
	l, err := Open(srv.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	put := func(value string) mainstem.Receipt {
		t.Helper()
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("k"), []byte(value))
		r, err := l.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	put("1")
	torn := &frame{nonce: 1, time: l.st.time, head: 4, nextID: 2}
	for n := range uint64(3) {
		torn.facts = append(torn.facts, fact{kind: factRecord, space: 1, key: []byte("k"), floor: 1, value: []byte("torn"),
			rec: &record{version: 2 + n, pos: 2 + n, time: torn.time, count: 1, size: 5}})
	}
	parts := torn.encode(1, 1)
	for i, p := range parts[:len(parts)-1] { // all but the last, without an atomic batch
		msg := &nats.Msg{Subject: l.subject, Data: p.payload, Header: nats.Header{headerExpect: {strconv.Itoa(1 + i)}}}
		reply, err := l.conn.RequestMsg(withFacts(msg, p), testkit.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := judge(reply.Data, uint64(2+i)); v != taken {
			t.Fatal(v, err)
		}
	}
	if err := l.awaitSeq(t.Context(), 3, time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "1" {
		t.Fatalf("a torn frame is seen: %s, %v", r.Value, err)
	}
	second, err := Open(srv.URL(), o) // it begins with the torn frame as the newest
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if r := put("2"); r.First != 2 || r.Versions[0] != 2 {
		t.Fatalf("after a torn frame the receipt is %+v, want position and version 2", r)
	}
	for what, log := range map[string]*Log{"before": l, "between": second} {
		if err := log.awaitSeq(t.Context(), 4, time.Now().Add(testkit.Patience)); err != nil {
			t.Fatal(err)
		}
		if r, err := log.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "2" {
			t.Fatalf("a log that was opened %s the torn frame reads %s, %v", what, r.Value, err)
		}
	}
	if err := l.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for seq, there := range map[uint64]bool{1: true, 2: false, 3: false, 4: true} {
		_, err := l.get(t.Context(), seq)
		if (err == nil) != there {
			t.Errorf("message %d after the sweep: %v", seq, err)
		}
	}
	third, err := Open(srv.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if r, err := third.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "2" || r.Version != 2 {
		t.Fatalf("a log opened later reads %s, %v", r.Value, err)
	}
}

func TestServerVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"2.12.0": true, "2.12.1": true, "2.13.0-RC.1": true, "v2.15.2": true, "3.0.0": true,
		"2.11.9": false, "2.2.12": false, "1.99.99": false, "": false, "new": false,
	} {
		err := checkServer(version)
		if (err == nil) != ok || err != nil && mainstem.KindOf(err) != mainstem.KindUnsupported {
			t.Errorf("server %q: %v", version, err)
		}
	}
}
