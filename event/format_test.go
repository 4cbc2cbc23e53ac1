package event

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// dump shows everything of a record that is persisted and does not depend on time.
func dump(rec *mainstem.Record) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %q\n", rec.Space, rec.Key)
	for _, h := range rec.Headers {
		if h.Name == headerOwner {
			h.Value = []byte("host pid n") // another on each machine
		}
		fmt.Fprintf(&s, "  %s %q\n", h.Name, h.Value)
	}
	fmt.Fprintf(&s, "  = %q\n", rec.Value)
	return s.String()
}

// The bytes that the store persists are a promise: this is all of them.
func TestPersistedBytes(t *testing.T) {
	log := testengines.Memory(t)
	id := ID{0: 1, 15: 0xff}
	s, err := Open(log, "orders", &Options{NewID: func() ID { return id }})
	if err != nil {
		t.Fatal(err)
	}
	custom := map[string]string{"source": "web", "$schema_version": "2", "a": ""}
	_, err = s.Do(t.Context(), func(b *mainstem.Batch) {
		s.AppendTo(b, "order-1", NoStream, []Event{
			{Type: "Plain"},
			{Type: "Full", Data: []byte("data"), ContentType: "text/plain", Tags: []string{"course:c1", "student:s1"}, Metadata: Metadata{"corr", "cause", "user", "tenant", custom}},
		})
		s.SaveSnapshotTo(b, Snapshot{Stream: "order-1", Version: 2, Type: "state/1", Data: []byte("state")})
		s.SetSettingsTo(b, "order-1", Settings{MaxCount: 10, MaxAge: time.Hour, Custom: map[string]string{"k": "v"}})
		s.writeCheckpoint(b, []byte("sub"), 17, (&Filter{Category: "order", Types: []string{"A", "B"}, Streams: []string{"s"}, Archived: true, Deletions: true}).save(), "host pid 1 #1")
		s.SetCheckpointTo(b, "plain", 18)
		s.park(b, Parked{Subscription: "sub", Stream: "order-1", Version: 2, Position: 258, Attempts: 5, Reason: "no"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Archive(t.Context(), "order-1"), s.Tombstone(t.Context(), "order-2", AnyVersion)); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for info, err := range log.Spaces(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "space %s: history %d, in feeds %v\n", info.Name, info.Policy.History, !info.Policy.NoFeed)
		for head, err := range log.Scan(t.Context(), info.Name, mainstem.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			for rec, err := range log.Read(t.Context(), info.Name, head.Key, mainstem.Versions{}) {
				if err != nil {
					t.Fatal(err)
				}
				got.WriteString(dump(&rec))
			}
		}
	}
	idText := fmt.Sprintf("%q", id[:])
	want := `space event.checkpoint/orders: history 1, in feeds false
event.checkpoint/orders "plain"
  = "18"
event.checkpoint/orders "sub"
  $filter "{\"category\":\"order\",\"types\":[\"A\",\"B\"],\"streams\":[\"s\"],\"archived\":true,\"deletions\":true}"
  $owner "host pid n"
  = "17"
space event.parked/orders: history 1, in feeds false
event.parked/orders "sub\x00\x00\x00\x00\x00\x00\x00\x01\x02"
  $stream "order-1"
  $version "2"
  $attempts "5"
  = "no"
space event.seal/orders: history 1, in feeds true
event.seal/orders "order-1"
  = "archived"
event.seal/orders "order-2"
  = "tombstoned"
space event.settings/orders: history 1, in feeds true
event.settings/orders "order-1"
  = "{\"max_count\":10,\"max_age_ns\":3600000000000,\"custom\":{\"k\":\"v\"}}"
space event.snapshot/orders: history 1, in feeds false
event.snapshot/orders "order-1"
  $version "2"
  $type "state/1"
  = "state"
space event/orders: history 0, in feeds true
event/orders "order-1"
  $id ` + idText + `
  $type "Plain"
  = ""
event/orders "order-1"
  $id ` + idText + `
  $type "Full"
  $content "text/plain"
  $corr "corr"
  $cause "cause"
  $user "user"
  $tenant "tenant"
  $tags "course:c1\nstudent:s1"
  $schema_version "2"
  a ""
  source "web"
  = "data"
`
	if got.String() != want {
		t.Errorf("persisted:\n%s\nwant:\n%s", got.String(), want)
	}
}

func TestID(t *testing.T) {
	before := time.Now().UnixMilli()
	seen := map[ID]bool{}
	for range 10_000 {
		id := NewID()
		ms := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
		if seen[id] || id.IsZero() || id[6]>>4 != 7 || id[8]>>6 != 2 || ms < before || ms > time.Now().UnixMilli() {
			t.Fatalf("id %s: not a new UUID of version 7 from now", id)
		}
		seen[id] = true
		text, err := id.MarshalText()
		var back ID
		if err != nil || back.UnmarshalText(text) != nil || back != id || id.String() != string(text) {
			t.Fatalf("id %s reads back as %s, %v", id, back, err)
		}
	}
	id, err := ParseID("01890A5D-ac96-774b-bcce-b302099a8057")
	if err != nil || hex.EncodeToString(id[:]) != "01890a5dac96774bbcceb302099a8057" {
		t.Fatalf("parsed %s, %v", id, err)
	}
	for _, bad := range []string{"", "01890a5dac96774bbcceb302099a8057", "01890a5d-ac96-774b-bcce-b302099a805", "01890a5d-ac96-774b-bcce-b302099a80zz", "01890a5d_ac96-774b-bcce-b302099a8057"} {
		if id, err := ParseID(bad); err == nil {
			t.Errorf("%q was parsed as %s", bad, id)
		}
	}
	if err := id.UnmarshalText(nil); err != nil || !id.IsZero() {
		t.Errorf("empty text: %s, %v", id, err)
	}
	if err := id.UnmarshalText([]byte("x")); err == nil {
		t.Error("a text that is no ID was accepted")
	}
}

// record builds a record whose headers are the fuzzer's: name, 0, value, 0, and so on.
func record(data []byte, live bool) *mainstem.Record {
	rec := &mainstem.Record{Space: "event/x", Key: []byte("order-1"), Version: 3, Count: 1, Position: 9, Time: time.Unix(9, 0), Value: data}
	if !live {
		rec.Tombstone = mainstem.Purged
	}
	parts := bytes.Split(data, []byte{0})
	for i := 0; i+1 < len(parts); i += 2 {
		rec.Headers = append(rec.Headers, mainstem.Header{Name: string(parts[i]), Value: parts[i+1]})
	}
	return rec
}

// FuzzDecode decodes arbitrary headers in both ways, which must agree.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("$id\x00123456789012345\x00$type\x00T\x00$corr\x00c\x00$user\x00u\x00k\x00v\x00$x\x00y"), true)
	f.Add([]byte("$id\x001234567890123456\x00$type\x00T\x00$type\x00again\x00$corr\x00a\x00$corr\x00\x00k\x001\x00k\x002"), true)
	f.Add([]byte("$id\x001234567890123456\x00$type\x00T\x00$tags\x00a:1\nb\x00$tags\x00c\x00$user\x00u"), true)
	f.Add([]byte("$tags\x00\n"), true)
	f.Add([]byte("$content\x00c\x00$cause\x00c\x00$tenant\x00t\x00\x00"), false)
	f.Fuzz(func(t *testing.T, data []byte, live bool) {
		rec := record(data, live)
		var c collector
		var d decoder
		one, err1 := d.recorded(rec, "order-1")
		err2 := c.add(rec)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("decoded with %v and %v", err1, err2)
		}
		if err1 != nil {
			return
		}
		if err := c.add(rec); err != nil { // twice, to meet what the first left
			t.Fatal(err)
		}
		for _, many := range c.flush(nil) {
			if !reflect.DeepEqual(one, many) {
				t.Fatalf("decoded %+v and %+v", one, many)
			}
		}
	})
}

// FuzzEncode appends arbitrary events: they are refused, or come back as they are.
func FuzzEncode(f *testing.F) {
	f.Add("Type", []byte("data"), "c", "", "user", "$key", "v", "text/plain", "a:1,b")
	f.Add("", []byte(nil), "", "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, typ string, data []byte, corr, tenant, user, name, value, content, tags string) {
		ev := Event{ID: NewID(), Type: typ, Data: data, ContentType: content, Metadata: Metadata{CorrelationID: corr, TenantID: tenant, UserID: user}}
		if name != "" {
			ev.Metadata.Custom = map[string]string{name: value}
		}
		if tags != "" {
			ev.Tags = strings.Split(tags, ",")
		}
		if ev.check("append", 0, 0) != nil {
			return
		}
		evs := []Event{ev, ev}
		var enc encoder
		enc.reserve(evs, 0)
		headers, bytes := cap(enc.headers), cap(enc.bytes)
		var d decoder
		for i := range evs {
			got, err := d.recorded(&mainstem.Record{Headers: enc.event(&evs[i], ev.ID), Value: data}, "s")
			if err != nil || !reflect.DeepEqual(got.Event, ev) {
				t.Fatalf("%+v came back as %+v, %v", ev, got.Event, err)
			}
		}
		if cap(enc.headers) != headers || cap(enc.bytes) != bytes {
			t.Fatal("the encoder did not reserve enough")
		}
	})
}

// FuzzAux decodes arbitrary checkpoints, filters, parked events, seals, snapshots
// and settings: an error of kind Corrupt, or a value that is written as it was read.
func FuzzAux(f *testing.F) {
	f.Add([]byte("17"), []byte(`{"types":["A"]}`), []byte("sub\x0012345678"))
	f.Add([]byte("archived"), []byte("x"), []byte("\x00"))
	f.Add([]byte(`{"max_count":1}`), []byte("3"), []byte(""))
	f.Fuzz(func(t *testing.T, value, header, key []byte) {
		s, err := Open(testengines.Memory(t), "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := &mainstem.Record{Space: "s", Key: key, Value: value, Headers: mainstem.Headers{
			{Name: headerFilter, Value: header}, {Name: headerVersion, Value: header}, {Name: headerAttempts, Value: header},
		}}
		check := func(what string, err error) {
			if err != nil && !errors.Is(err, mainstem.ErrCorrupt) {
				t.Errorf("%s: %v: want Corrupt", what, err)
			}
		}
		cp, saved, err := decodeCheckpoint(rec)
		check("checkpoint", err)
		if err == nil && string(value) != fmt.Sprint(uint64(cp.Position)) && !strings.HasPrefix(string(value), "0") && !strings.HasPrefix(string(value), "+") {
			t.Errorf("checkpoint %q is position %d", value, cp.Position)
		}
		if saved != nil {
			o, err := decodeFilter(rec, saved)
			check("filter", err)
			if err == nil {
				if again := o.save(); again != nil {
					o2, err := decodeFilter(rec, again)
					if err != nil || !reflect.DeepEqual(o, o2) && len(o.Types)+len(o.Streams) > 0 {
						t.Errorf("filter %+v came back as %+v, %v", o, o2, err)
					}
				}
			}
		}
		p, err := decodeParked(rec)
		check("parked", err)
		if err == nil && !bytes.Equal(parkedKey([]byte(p.Subscription), p.Position), key) {
			t.Errorf("parked key %q is %+v", key, p)
		}
		if seal, ok := parseSeal(value); ok && seal.String() != string(value) {
			t.Errorf("seal %q is %v", value, seal)
		}
		_, err = s.decodeSettings(rec)
		check("settings", err)
	})
}

// FuzzStreamID splits arbitrary names: every name comes together again.
func FuzzStreamID(f *testing.F) {
	for _, s := range []string{"order-42", "order", "-x", "a-b-c", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id := ParseStreamID(name)
		if id.String() != name || strings.Contains(id.Category, "-") {
			t.Fatalf("%q is %+v, which is %q", name, id, id.String())
		}
	})
}

// FuzzParseID parses arbitrary texts: what is accepted is written the same.
func FuzzParseID(f *testing.F) {
	f.Add("01890a5d-ac96-774b-bcce-b302099a8057")
	f.Add("01890a5d-ac96-774b-bcce-b302099a80-7")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseID(text); err == nil && id.String() != strings.ToLower(text) {
			t.Fatalf("%q is %s", text, id)
		}
	})
}
