package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

var spaceCases = []testCase{
	{name: "create a space", run: createSpace,
		promise: "A space is created with its policy, empty; creating it again is Exists and changes nothing."},
	{name: "create with a batch", run: createWithBatch,
		promise: "Ensure creates a space as part of the batch unless it exists, and an existing one keeps its policy."},
	{name: "bad spaces", run: badSpaces,
		promise: "A bad name or policy is Invalid everywhere."},
	{name: "alter a space", run: alterSpace,
		promise: "Alter replaces the policy, keeps the records, and refuses what may not change."},
	{name: "drop a space", run: dropSpace,
		promise: "Drop removes a space and all its records and nothing of any other space."},
	{name: "drop and create again", run: dropAndCreate,
		promise: "A space created under the name of a dropped one starts empty, with a policy of its own."},
	{name: "list spaces", run: listSpaces,
		promise: "Spaces yields those whose names start with a prefix, in the order of their bytes."},
	{name: "reading creates nothing", run: readingCreatesNothing,
		promise: "No read, condition or failed write creates a space or a key."},
	{name: "statistics", run: statistics,
		promise: "Keys, Records, Bytes, Last and Updated are exact after every write."},
	{name: "spaces at once", run: spacesAtOnce,
		promise: "Of many clients that create one space exactly one succeeds; those who ensure it all do."},
}

// names returns the names of the spaces that start with prefix.
func (e *env) names(prefix string) []string {
	e.Helper()
	var out []string
	for in, err := range e.log.Spaces(e.ctx, prefix) {
		if err != nil {
			e.Fatalf("spaces %q: %v", prefix, err)
		}
		out = append(out, in.Name)
	}
	return out
}

func createSpace(e *env) {
	p := mainstem.Policy{History: 7, TombstoneAge: -1, NoFeed: true, Metadata: map[string]string{"a": "1", "b": "", "": "c"}}
	e.space("s", p)
	in := e.info("s")
	if in.Name != "s" || !in.Policy.Equal(p) || in.Keys != 0 || in.Records != 0 || in.Bytes != 0 || in.Last != 0 {
		e.Fatalf("a new space is %+v, want an empty one with policy %+v", in, p)
	}
	if in.Created.IsZero() {
		e.Fatalf("a new space has no time of creation")
	}
	p.Metadata["a"] = "changed by the caller"
	in.Policy.Metadata["b"] = "changed by the reader"
	e.kind("create again", e.log.CreateSpace(e.ctx, "s", mainstem.Policy{}), mainstem.KindExists)
	again := e.info("s")
	if again.Policy.Metadata["a"] != "1" || again.Policy.Metadata["b"] != "" || again.Policy.History != 7 || !again.Created.Equal(in.Created) {
		e.Fatalf("the space became %+v", again)
	}
	e.put("s", "k", "v")
	e.kind("create again", e.log.CreateSpace(e.ctx, "s", p), mainstem.KindExists)
	e.holds("s", "k", "v")
}

func createWithBatch(e *env) {
	first := mainstem.Policy{History: 2, Metadata: map[string]string{"v": "1"}}
	r := e.commit(func(b *mainstem.Batch) {
		b.Ensure("s", first)
		b.Ensure("s", mainstem.Policy{History: 9})
		b.Ensure("t", mainstem.Policy{})
		b.Put("s", []byte("k"), nil)
	})
	e.commit(func(b *mainstem.Batch) { b.Ensure("s", mainstem.Policy{}); b.Put("s", []byte("k"), nil) })
	if in := e.info("s"); !in.Policy.Equal(first) || in.Records != 2 {
		e.Fatalf("the space is %+v, want policy %+v and 2 records", in, first)
	}
	if in := e.info("t"); in.Records != 0 || in.Last != 0 || r.Last != 1 {
		e.Fatalf("the space that was only ensured is %+v", in)
	}
	if r = e.commit(func(b *mainstem.Batch) { b.Ensure("alone", mainstem.Policy{}) }); r.First != 0 {
		e.Fatalf("a batch that only ensures has the receipt %+v", r)
	}
	e.same("the spaces", e.names(""), "alone", "s", "t")
	e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
		b.Ensure("new", mainstem.Policy{})
		b.IfExists("s", []byte("nothing"))
	})
}

func badSpaces(e *env) {
	e.space("s", mainstem.Policy{})
	long := strings.Repeat("n", mainstem.MaxSpaceName+1)
	for _, name := range []string{"", " a", "a ", "a\x00b", "a\n", "\x7f", "a\xff", long} {
		e.kind(fmt.Sprintf("create space %q", name), e.log.CreateSpace(e.ctx, name, mainstem.Policy{}), mainstem.KindInvalid)
	}
	huge := map[string]string{"k": strings.Repeat("v", mainstem.MaxPolicyMetadata)}
	for _, p := range []mainstem.Policy{{History: -1}, {History: mainstem.MaxHistory + 1}, {MaxAge: -1}, {MaxBytes: -1}, {Metadata: huge}} {
		e.kind("create space with a bad policy", e.log.CreateSpace(e.ctx, "bad", p), mainstem.KindInvalid)
		e.kind("alter space to a bad policy", e.log.AlterSpace(e.ctx, "s", p), mainstem.KindInvalid)
	}
	if in := e.info("s"); !in.Policy.Equal(mainstem.Policy{}) {
		e.Fatalf("a refused policy took hold: %+v", in.Policy)
	}
	e.same("the spaces", e.names(""), "s")
}

func alterSpace(e *env) {
	e.space("all", mainstem.Policy{})
	e.space("one", mainstem.Policy{History: 1})
	for range 3 {
		e.put("all", "k", "v")
		e.put("one", "k", "v")
	}
	e.kind("bound a history", e.log.AlterSpace(e.ctx, "all", mainstem.Policy{History: 1}), mainstem.KindInvalid)
	e.kind("unbound a history", e.log.AlterSpace(e.ctx, "one", mainstem.Policy{}), mainstem.KindInvalid)
	e.kind("turn the feed off", e.log.AlterSpace(e.ctx, "all", mainstem.Policy{NoFeed: true}), mainstem.KindInvalid)
	p := mainstem.Policy{History: 3, TombstoneAge: -1, Metadata: map[string]string{"x": "y"}}
	if err := e.log.AlterSpace(e.ctx, "one", p); err != nil {
		e.Fatalf("alter: %v", err)
	}
	if in := e.info("one"); !in.Policy.Equal(p) || in.Records != 1 {
		e.Fatalf("after alter the space is %+v, want policy %+v", in, p)
	}
	for n := range 4 {
		e.put("one", "k", fmt.Sprint(n))
	}
	e.same("the records with more history", briefs(e.read("one", "k", mainstem.Versions{})), "one/k@5=1", "one/k@6=2", "one/k@7=3")
	p.History = 1
	if err := e.log.AlterSpace(e.ctx, "one", p); err != nil {
		e.Fatalf("alter: %v", err)
	}
	e.put("one", "k", "last") // at the latest now the smaller history holds
	e.same("the records with less history", briefs(e.read("one", "k", mainstem.Versions{})), "one/k@8=last")
	e.same("the feed with less history", briefs(e.feed(mainstem.Filter{Spaces: []string{"one"}})), "one/k@8=last")
	if got := e.read("all", "k", mainstem.Versions{}); len(got) != 3 {
		e.Fatalf("altering one space left %v in another", briefs(got))
	}
}

func dropSpace(e *env) {
	names := []string{"a", "a2", "a/b", "a/", "a\u0308", "A", "b", "aa"}
	for i, n := range names {
		e.space(n, mainstem.Policy{History: i % 3})
		for j := range 10 {
			e.put(n, fmt.Sprint("k", j%4), n)
		}
	}
	left := slices.Clone(names)
	for _, n := range []string{"a", "a/", "b"} {
		if err := e.log.DropSpace(e.ctx, n); err != nil {
			e.Fatalf("drop %s: %v", n, err)
		}
		e.kind("drop twice", e.log.DropSpace(e.ctx, n), mainstem.KindNotFound)
		left = slices.DeleteFunc(left, func(s string) bool { return s == n })
		e.absent(n, "k1")
		if got := e.feed(mainstem.Filter{Spaces: []string{n}}); len(got) != 0 {
			e.Fatalf("the feed of dropped space %s has %v", n, briefs(got))
		}
		total := 0
		for _, other := range left {
			in := e.info(other)
			if in.Keys != 4 || len(e.scan(other, mainstem.Range{})) != 4 {
				e.Fatalf("dropping %q left %d keys of %q", n, in.Keys, other)
			}
			total += int(in.Records)
		}
		if got := len(e.feed(mainstem.Filter{})); got != total {
			e.Fatalf("after dropping %q the feed has %d records, the spaces hold %d", n, got, total)
		}
	}
	slices.Sort(left)
	e.same("the spaces left", e.names(""), left...)
	e.refused(mainstem.KindNotFound, func(b *mainstem.Batch) { b.Put("a", []byte("k"), nil) })
}

func dropAndCreate(e *env) {
	for n := range 4 {
		p := mainstem.Policy{History: n % 3}
		e.space("s", p)
		if in := e.info("s"); in.Keys != 0 || in.Records != 0 || in.Bytes != 0 || in.Last != 0 || !in.Policy.Equal(p) {
			e.Fatalf("life %d of the space begins as %+v", n, in)
		}
		e.absent("s", "k")
		if got := e.scan("s", mainstem.Range{Tombstones: true}); len(got) != 0 {
			e.Fatalf("life %d of the space begins with %v", n, briefs(got))
		}
		e.commit(func(b *mainstem.Batch) { b.IfAbsent("s", []byte("k")); b.Put("s", []byte("k"), []byte("1")) })
		e.put("s", "k", "2")
		e.put("s", fmt.Sprint("only in life ", n), "v")
		want := 3
		if p.History == 1 {
			want = 2
		}
		if got := e.feed(mainstem.Filter{Spaces: []string{"s"}}); len(got) != want {
			e.Fatalf("life %d of the space has the feed %v", n, briefs(got))
		}
		if got := e.read("s", "k", mainstem.Versions{}); len(got) != want-1 {
			e.Fatalf("life %d of a key has the records %v", n, briefs(got))
		}
		if err := e.log.DropSpace(e.ctx, "s"); err != nil {
			e.Fatalf("drop: %v", err)
		}
	}
}

func listSpaces(e *env) {
	names := []string{"a", "a.b", "a/", "a/b", "a/b/c", "a/c", "a2", "ab", "b", "ä", "日本"}
	for i := range names {
		e.space(names[i*7%len(names)], mainstem.Policy{History: 1})
	}
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/", "b", "c", "ä", "日", "\xc3", "a/b/c/d"} {
		var want []string
		for _, n := range names {
			if strings.HasPrefix(n, prefix) {
				want = append(want, n)
			}
		}
		e.same(fmt.Sprintf("the spaces that start with %q", prefix), e.names(prefix), want...)
	}
	n := 0
	for range e.log.Spaces(e.ctx, "") {
		if n++; n == 3 {
			break
		}
	}
}

func readingCreatesNothing(e *env) {
	e.space("s", mainstem.Policy{})
	before := e.dump(e.log)
	e.absent("s", "k")
	e.absent("t", "k")
	e.read("s", "k", mainstem.Versions{})
	for range e.log.Scan(e.ctx, "t", mainstem.Range{}) {
		continue
	}
	e.feed(mainstem.Filter{Spaces: []string{"t"}})
	e.commit(func(b *mainstem.Batch) { b.IfAbsent("t", []byte("k")); b.IfAbsent("s", []byte("k")) })
	if _, err := e.log.Space(e.ctx, "t"); !errors.Is(err, mainstem.ErrNotFound) {
		e.Fatalf("the description of an unknown space: %v", err)
	}
	e.unchanged(before, "after reads")
}

func statistics(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		steps := [][]mainstem.Write{
			{{Value: []byte("12345")}},
			{{Value: []byte("1"), Headers: mainstem.Headers{{Name: "name", Value: []byte("value")}}}, {Count: 9}},
			{{Op: mainstem.OpDelete}},
			{{Op: mainstem.OpDelete}},
			{{Value: []byte("again")}, {}, {}, {}},
			{{Op: mainstem.OpPurge, Headers: mainstem.Headers{{Name: "n"}}}},
			{{Value: make([]byte, 1000)}},
		}
		if e.f.Truncate {
			steps = append(steps, []mainstem.Write{{Op: mainstem.OpTruncate, Version: 2}})
		}
		if e.f.Forget {
			steps = append(steps, []mainstem.Write{{Op: mainstem.OpForget}}, []mainstem.Write{{}})
		}
		for _, w := range steps {
			for _, key := range []string{"k", "k2", "longer key"} {
				r := e.apply(s, key, w...)
				e.counted(s, r, "k", "k2", "longer key")
			}
		}
	})
}

// counted compares the numbers of a space with what can be read from it.
func (e *env) counted(space string, r mainstem.Receipt, keys ...string) {
	e.Helper()
	var want mainstem.SpaceInfo
	for _, k := range keys {
		records := e.read(space, k, mainstem.Versions{})
		want.Records += int64(len(records))
		want.Bytes += bytesOf(records)
		if len(records) > 0 {
			want.Keys++
		}
	}
	got := e.info(space)
	if got.Keys != want.Keys || got.Records != want.Records || got.Bytes != want.Bytes {
		e.Fatalf("space %s says %d keys, %d records, %d bytes; reading finds %d, %d, %d", space, got.Keys, got.Records, got.Bytes, want.Keys, want.Records, want.Bytes)
	}
	if r.Last != 0 && (got.Last != r.Last || !got.Updated.Equal(r.Time)) {
		e.Fatalf("space %s says position %d at %v; the last receipt is %+v", space, got.Last, got.Updated, r)
	}
}

func spacesAtOnce(e *env) {
	for round := range 10 {
		name := fmt.Sprint("s", round)
		created := make([]bool, 8)
		e.parallel(len(created), func(i int) error {
			if i%2 == 0 {
				b := mainstem.NewBatch()
				b.Ensure(name+"-ensured", mainstem.Policy{History: 1})
				b.Put(name+"-ensured", []byte{byte(i)}, nil)
				_, err := e.attempt(b)
				return err
			}
			err := e.log.CreateSpace(e.ctx, name, mainstem.Policy{})
			if created[i] = err == nil; errors.Is(err, mainstem.ErrExists) {
				return nil
			}
			return err
		})
		if n := slices.Index(created, true); n < 0 || slices.Contains(created[n+1:], true) {
			e.Fatalf("the clients that created one space are %v, want exactly one", created)
		}
		if in := e.info(name + "-ensured"); in.Keys != 4 {
			e.Fatalf("4 clients ensured a space and wrote a key each: it holds %d", in.Keys)
		}
	}
}
