package enginetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

var exactCases = []testCase{
	{law: Exact, name: "values", run: exactValues,
		promise: "Every value comes back byte for byte from every read; nil and empty stay distinct."},
	{law: Exact, name: "keys", run: exactKeys,
		promise: "Every key of 1 to MaxKey bytes is a key of its own, whatever its bytes, and comes back unchanged."},
	{law: Exact, name: "headers", run: exactHeaders,
		promise: "Headers keep their order, their repetitions, and the difference between a nil and an empty value."},
	{law: Exact, name: "names of spaces", run: exactNames,
		promise: "Names of spaces are compared byte by byte: no folding, no prefixes, no separators."},
	{law: Exact, name: "fields of records", run: exactFields,
		promise: "Space, key, version, count, position, time and expiry are the same from every read and fit the receipt."},
	{law: Exact, name: "time that a batch is given", run: givenTimes,
		promise: "A batch with a time of its own is committed at that time, to the nanosecond, unless that is before the newest record's or still to come."},
	{law: Exact, name: "commit copies", run: commitCopies,
		promise: "Changing the slices of a batch after Commit has returned does not change the log."},
	{law: Exact, name: "get gives away", run: getGivesAway,
		promise: "The bytes that Get returned belong to the caller: changing them changes nothing else."},
	{law: Exact, name: "clones of lent records", run: clonesOfLent,
		promise: "A clone of a record that a sequence lent stays as it is."},
	{law: Exact, name: "batch committed again", run: batchCommittedAgain,
		promise: "Commit leaves a batch as it is: it may be committed again."},
}

// awkward are byte strings that encodings tend to get wrong.
func awkward() [][]byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	out := [][]byte{{0}, {0xff}, {0, 0}, {0, 0xff}, {0xff, 0}, {0xff, 0xff}, {0, 1}, {1}, {1, 0}, {0xfe, 0xff}, all,
		[]byte("a"), []byte("a\x00"), []byte("a\x00b"), []byte("a\x00\x00"), []byte("a\x00\x01"), []byte("a\x00\xff"), []byte("a\x01"),
		[]byte("a\xff"), []byte("a\xff\x00"), []byte("ab"), []byte("a/b"), []byte("a.b"), []byte("a b"), []byte(" "), []byte("*"), []byte(">"), []byte("a.>"),
		[]byte("%00"), []byte("%"), []byte("ä"), []byte("a\u0308"), []byte("\xc3"), []byte("日本"), []byte("\r\n"), []byte("'\"\\"), []byte("../x"), []byte("null")}
	return out
}

// everyRead returns the record of the newest version of key by every way to read it.
func (e *env) everyRead(space string, key []byte) map[string]mainstem.Record {
	e.Helper()
	r, err := e.log.Get(e.ctx, space, key)
	if err != nil {
		e.Fatalf("get %s/%q: %v", space, key, err)
	}
	one := func(how string, records []mainstem.Record) mainstem.Record {
		if len(records) != 1 {
			e.Fatalf("%s of %s/%q: %d records, want 1", how, space, key, len(records))
		}
		return records[0]
	}
	after := append(bytes.Clone(key), 0)
	return map[string]mainstem.Record{
		"get":  r,
		"scan": one("scan", e.scan(space, mainstem.Range{Start: key, End: after})),
		"read": one("read", e.read(space, string(key), mainstem.Versions{From: r.Version})),
		"feed": one("feed", e.feed(mainstem.Filter{Spaces: []string{space}, After: r.Position - 1, Limit: 1})),
	}
}

func exactValues(e *env) {
	for _, p := range []mainstem.Policy{{}, {History: 1}, {History: 2}} {
		space := fmt.Sprintf("h%d", p.History)
		e.space(space, p)
		values := append([][]byte{nil, {}}, awkward()...)
		rnd := rand.NewChaCha8([32]byte{1})
		for _, n := range []int{100, 127, 128, 129, 4095, 4096, 1<<16 - 1, 1 << 16, 1 << 20} {
			v := make([]byte, min(n, e.f.Limits.MaxValue))
			_, _ = rnd.Read(v)
			values = append(values, v, make([]byte, len(v)))
		}
		for i, v := range values {
			key := fmt.Appendf(nil, "k%d", i%3)
			e.commit(func(b *mainstem.Batch) { b.Put(space, key, v) })
			for how, r := range e.everyRead(space, key) {
				if !bytes.Equal(r.Value, v) || (r.Value == nil) != (v == nil) {
					e.Fatalf("%s: value %s came back as %s", how, bytesText(v), bytesText(r.Value))
				}
			}
		}
	}
}

func exactKeys(e *env) {
	keys := awkward()
	for _, n := range []int{127, 128, 255, 256, 1000, mainstem.MaxKey - 1, mainstem.MaxKey} {
		for _, c := range []byte{0, 'k', 0xff} {
			keys = append(keys, bytes.Repeat([]byte{c}, n))
		}
	}
	for _, p := range []mainstem.Policy{{}, {History: 1}, {History: 2}} {
		space := fmt.Sprintf("h%d", p.History)
		e.space(space, p)
		for i, k := range keys {
			e.commit(func(b *mainstem.Batch) { b.Put(space, k, fmt.Append(nil, i)) })
		}
		for i, k := range keys {
			for how, r := range e.everyRead(space, k) {
				if !bytes.Equal(r.Key, k) || string(r.Value) != fmt.Sprint(i) || r.Version != 1 {
					e.Fatalf("%s: key %s came back as %s", how, bytesText(k), brief(r))
				}
			}
		}
		if n := len(e.scan(space, mainstem.Range{})); n != len(keys) {
			e.Fatalf("%d keys became %d", len(keys), n)
		}
	}
}

func exactHeaders(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 1})
	lists := []mainstem.Headers{
		nil,
		{{Name: "a", Value: []byte("1")}},
		{{Name: "z", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "z", Value: []byte("3")}, {Name: "a", Value: []byte("2")}},
		{{Name: "nil", Value: nil}, {Name: "empty", Value: []byte{}}, {Name: "nil", Value: nil}},
		{{Name: "", Value: []byte("no name")}, {Name: "\x00\xff", Value: []byte{0, 0xff}}},
		{{Name: "Case", Value: []byte("1")}, {Name: "case", Value: []byte("2")}},
	}
	for _, b := range awkward() {
		lists = append(lists, mainstem.Headers{{Name: string(b), Value: b}})
	}
	for _, space := range []string{"s", "b"} {
		for _, h := range lists {
			e.commit(func(b *mainstem.Batch) {
				b.Add(mainstem.Write{Space: space, Key: []byte("k"), Value: []byte("v"), Headers: h})
			})
			for how, r := range e.everyRead(space, []byte("k")) {
				if err := sameHeaders(r.Headers, h); err != nil {
					e.Fatalf("%s in %s: %v", how, space, err)
				}
			}
		}
	}
	e.apply("s", "k", mainstem.Write{Op: mainstem.OpDelete, Headers: lists[2]})
	tombstone := e.read("s", "k", mainstem.Versions{Reverse: true, Limit: 1})[0]
	if err := sameHeaders(tombstone.Headers, lists[2]); err != nil {
		e.Fatalf("a tombstone: %v", err)
	}
}

func sameHeaders(got, want mainstem.Headers) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d headers came back as %d", len(want), len(got))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Name != w.Name || !bytes.Equal(g.Value, w.Value) || (g.Value == nil) != (w.Value == nil) {
			return fmt.Errorf("header %d, %q: %s, came back as %q: %s", i, w.Name, bytesText(w.Value), g.Name, bytesText(g.Value))
		}
	}
	return nil
}

func exactNames(e *env) {
	names := []string{"a", "A", "a2", "a/b", "a/", "a.b", "a-b", "a b", "a//b", "/a", "ä", "a\u0308", "日本", "..", "*", ">", "a.>", "%", "'", strings.Repeat("n", mainstem.MaxSpaceName), strings.Repeat("n", mainstem.MaxSpaceName-1)}
	for i, n := range names {
		e.space(n, mainstem.Policy{History: i % 3})
		e.put(n, "k", n)
	}
	for i, n := range names {
		e.holds(n, "k", n)
		in := e.info(n)
		if in.Name != n || in.Records != 1 || in.Policy.History != i%3 {
			e.Fatalf("space %q is described as %+v", n, in)
		}
		if r := e.get(n, "k"); r.Space != n {
			e.Fatalf("the record of space %q says %q", n, r.Space)
		}
		if got := e.feed(mainstem.Filter{Spaces: []string{n}}); len(got) != 1 || string(got[0].Value) != n || got[0].Space != n {
			e.Fatalf("the feed of space %q has %v", n, briefs(got))
		}
	}
}

func exactFields(e *env) {
	e.seeded()
	for i := range 12 {
		space := []string{"s", "b"}[i%2]
		w := mainstem.Write{Space: space, Key: []byte{byte(i)}, Value: []byte("v"), Count: uint32(i)}
		if e.f.Expiry && i%3 == 0 {
			w.TTL = time.Duration(i+1) * time.Hour
		}
		receipt := e.commit(func(b *mainstem.Batch) { b.Put("s", []byte("other"), nil); b.Add(w) })
		reads := e.everyRead(space, w.Key)
		r := reads["get"]
		count := max(w.Count, 1)
		if r.Space != space || r.Count != count || r.Version != mainstem.Version(count) || r.First() != 1 || receipt.Versions[1] != r.Version {
			e.Fatalf("a write of %d items came back as %s with receipt %+v", w.Count, full(r), receipt)
		}
		if r.Position != receipt.Last || !r.Time.Equal(receipt.Time) {
			e.Fatalf("the record says position %d, time %v; the receipt says %+v", r.Position, r.Time, receipt)
		}
		if w.TTL == 0 != r.Expires.IsZero() || w.TTL > 0 && r.Expires.Sub(r.Time) != w.TTL {
			e.Fatalf("a write with a time to live of %v at %v expires at %v", w.TTL, r.Time, r.Expires)
		}
		for how, other := range reads {
			if full(other) != full(r) {
				e.Fatalf("%s returned %s, get %s", how, full(other), full(r))
			}
		}
	}
}

func commitCopies(e *env) {
	e.seeded()
	for _, space := range []string{"s", "b"} {
		key, value, name := []byte("key"), []byte("value"), []byte("header")
		b := mainstem.NewBatch()
		b.ID = "id" + space
		h := mainstem.Headers{{Name: "h", Value: name}}
		b.Add(mainstem.Write{Space: space, Key: key, Value: value, Headers: h})
		b.IfAbsent(space, key)
		fl := e.follow(mainstem.Filter{Spaces: []string{space}, After: e.head()})
		if _, err := e.attempt(b); err != nil {
			e.Fatalf("commit: %v", err)
		}
		for _, s := range [][]byte{key, value, name} {
			for i := range s {
				s[i] = 'X'
			}
		}
		h[0] = mainstem.Header{Name: "other"}
		b.Reset()
		b.Put(space, []byte("unrelated"), []byte("u"))
		for how, r := range e.everyRead(space, []byte("key")) {
			if want := space + "/key@1=value h:header"; brief(r) != want {
				e.Fatalf("%s: the record became %s when the batch was changed after Commit, want %s", how, brief(r), want)
			}
		}
		fl.wants(space + "/key@1=value h:header")
		fl.stop()
	}
}

func getGivesAway(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 1})
	for _, space := range []string{"s", "b"} {
		w := mainstem.Write{Space: space, Key: []byte("key"), Value: []byte("value"), Headers: mainstem.Headers{{Name: "h", Value: []byte("header")}}}
		e.commit(func(b *mainstem.Batch) { b.Add(w) })
		for range 3 {
			r := e.get(space, "key")
			for _, s := range [][]byte{r.Key, r.Value, r.Headers[0].Value} {
				for i := range s {
					s[i] = 'X'
				}
				_ = append(s, "overrun"...)
			}
			r.Headers[0].Name = "other"
		}
		for how, r := range e.everyRead(space, []byte("key")) {
			if want := space + "/key@1=value h:header"; brief(r) != want {
				e.Fatalf("%s: the record became %s when what Get had returned was changed, want %s", how, brief(r), want)
			}
		}
	}
	kept := e.get("s", "key")
	want := full(kept)
	for n := range 200 {
		e.put("s", "key", strings.Repeat("x", n))
	}
	if full(kept) != want {
		e.Fatalf("what Get had returned became %s when the log went on, was %s", full(kept), want)
	}
}

func clonesOfLent(e *env) {
	e.seeded()
	e.commit(muchWork)
	for name, seq := range map[string]func(yield func(mainstem.Record, error) bool){
		"scan": e.log.Scan(e.ctx, "s", mainstem.Range{}),
		"read": e.log.Read(e.ctx, "s", []byte("twice"), mainstem.Versions{}),
		"feed": e.log.Feed(e.ctx, mainstem.Filter{}),
	} {
		var clones []mainstem.Record
		var seen []string
		for r, err := range seq {
			if err != nil {
				e.Fatalf("%s: %v", name, err)
			}
			seen = append(seen, full(r))
			clones = append(clones, r.Clone())
		}
		e.same("clones of the records of a "+name, fulls(clones), seen...)
	}
}

func batchCommittedAgain(e *env) {
	e.seeded()
	b := mainstem.NewBatch()
	b.IfExists("s", []byte("live"))
	b.Ensure("new", mainstem.Policy{})
	b.Put("s", []byte("live"), []byte("x"))
	b.Add(mainstem.Write{Space: "new", Key: []byte("k"), Count: 2, Headers: mainstem.Headers{{Name: "h"}}})
	shape := describe(b)
	for n := range 3 {
		r, err := e.attempt(b)
		if err != nil {
			e.Fatalf("commit %d of the same batch: %v", n+1, err)
		}
		if r.Versions[0] != mainstem.Version(n+2) || r.Versions[1] != mainstem.Version(2*n+2) {
			e.Fatalf("commit %d of the same batch made versions %v", n+1, r.Versions)
		}
		if describe(b) != shape {
			e.Fatalf("Commit changed its batch from %s to %s", shape, describe(b))
		}
	}
}

func givenTimes(e *env) {
	e.space("s", mainstem.Policy{})
	base := time.Now()
	if e.f.Clock != nil {
		base = e.f.Clock.Now()
	}
	past := base.Add(-100 * time.Hour).Round(0).Add(123)
	at := func(key string, given time.Time, ttl time.Duration) time.Time {
		r := e.commit(func(b *mainstem.Batch) {
			b.Time = given
			b.Add(mainstem.Write{Space: "s", Key: []byte(key), TTL: ttl})
		})
		if got := e.get("s", key); !got.Time.Equal(r.Time) {
			e.Errorf("%s: the receipt says %v, the record %v", key, r.Time, got.Time)
		}
		return r.Time
	}
	if got := at("first", past, 0); !got.Equal(past) {
		e.Errorf("a batch of %v was committed at %v", past, got)
	}
	if got := at("earlier", past.Add(-time.Second), 0); !got.Equal(past) {
		e.Errorf("a batch of a second before the newest record of %v was committed at %v", past, got)
	}
	if got := at("later", past.Add(time.Hour+1), 0); !got.Equal(past.Add(time.Hour + 1)) {
		e.Errorf("a batch of %v was committed at %v", past.Add(time.Hour+1), got)
	}
	if e.f.Expiry {
		lives := past.Add(2 * time.Hour)
		at("lives", lives, 200*time.Hour)
		if got := e.get("s", "lives"); !got.Expires.Equal(lives.Add(200 * time.Hour)) {
			e.Errorf("a record of %v that lives 200h expires at %v", lives, got.Expires)
		}
	}
	to := base.Add(1000 * time.Hour)
	if got := at("to come", to, 0); !got.Before(to) {
		e.Errorf("a batch of %v, which is to come, was committed at %v", to, got)
	}
	if got := e.put("s", "now", "v").Time; got.Before(base.Add(-time.Hour)) {
		e.Errorf("a batch without a time was committed at %v", got)
	}
	for _, wrong := range []time.Time{time.Unix(0, 0), time.Unix(-1, 0), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)} {
		e.refused(mainstem.KindInvalid, func(b *mainstem.Batch) { b.Time = wrong; b.Put("s", []byte("k"), nil) })
	}
}
