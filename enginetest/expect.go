package enginetest

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mainstemdev/mainstem"
)

// space creates a space.
func (e *env) space(name string, p mainstem.Policy) {
	e.Helper()
	if err := e.log.CreateSpace(e.ctx, name, p); err != nil {
		e.Fatalf("create space %s: %v", name, err)
	}
}

// commit commits what fill adds to a new batch; it must succeed.
func (e *env) commit(fill func(b *mainstem.Batch)) mainstem.Receipt {
	e.Helper()
	b := mainstem.NewBatch()
	fill(b)
	r, err := e.attempt(b)
	if err != nil {
		e.Fatalf("commit %s: %v", describe(b), err)
	}
	if len(r.Versions) != b.Len() {
		e.Fatalf("commit %s: the receipt has %d versions for %d writes", describe(b), len(r.Versions), b.Len())
	}
	return r
}

// put writes value to key in a batch of its own.
func (e *env) put(space, key, value string) mainstem.Receipt {
	e.Helper()
	return e.commit(func(b *mainstem.Batch) { b.Put(space, []byte(key), []byte(value)) })
}

// apply commits the writes given, all to one key.
func (e *env) apply(space, key string, writes ...mainstem.Write) mainstem.Receipt {
	e.Helper()
	return e.commit(func(b *mainstem.Batch) {
		for _, w := range writes {
			w.Space, w.Key = space, []byte(key)
			b.Add(w)
		}
	})
}

// refused commits what fill adds; it must fail with kind, say that nothing was
// written, and leave everything as it was.
func (e *env) refused(kind mainstem.Kind, fill func(b *mainstem.Batch)) *mainstem.Error {
	e.Helper()
	before := e.dump(e.log)
	b := mainstem.NewBatch()
	fill(b)
	r, err := e.attempt(b)
	if err == nil {
		e.Fatalf("commit %s succeeded with %+v, want %s", describe(b), r, kind)
	}
	failure := e.kind("commit "+describe(b), err, kind)
	if failure.Outcome != mainstem.NotWritten {
		e.Fatalf("commit %s: the outcome of %q is %q, want %q", describe(b), err, failure.Outcome, mainstem.NotWritten)
	}
	e.unchanged(before, "after the failed commit "+describe(b))
	return failure
}

// unchanged fails if the log does not look as it did when before was dumped.
func (e *env) unchanged(before []string, when string) {
	e.Helper()
	e.same(when+" the log", e.dump(e.log), before...)
}

// kind fails unless err is an Error of that kind.
func (e *env) kind(doing string, err error, kind mainstem.Kind) *mainstem.Error {
	e.Helper()
	var failure *mainstem.Error
	if err == nil {
		e.Fatalf("%s: no error, want %s", doing, kind)
	}
	if !errors.As(err, &failure) {
		e.Fatalf("%s: %q is no *mainstem.Error, want one of kind %s", doing, err, kind)
	}
	if failure.Kind != kind {
		e.Fatalf("%s: got an error of kind %s (%v), want %s", doing, failure.Kind, err, kind)
	}
	return failure
}

// get returns the newest record of key, which must be live.
func (e *env) get(space, key string) mainstem.Record {
	e.Helper()
	r, err := e.log.Get(e.ctx, space, []byte(key))
	if err != nil {
		e.Fatalf("get %s/%q: %v", space, key, err)
	}
	return r
}

// holds fails unless key has value as its newest.
func (e *env) holds(space, key, value string) {
	e.Helper()
	if r := e.get(space, key); string(r.Value) != value {
		e.Fatalf("get %s/%q: the value is %q, want %q", space, key, r.Value, value)
	}
}

// absent fails unless key has no live value.
func (e *env) absent(space, key string) {
	e.Helper()
	if err := isAbsent(e, e.log, space, key); err != nil {
		e.Fatalf("%v", err)
	}
}

func isAbsent(e *env, log mainstem.Reader, space, key string) error {
	r, err := log.Get(e.ctx, space, []byte(key))
	if err == nil {
		return fmt.Errorf("get %s/%q: got %s, want NotFound", space, key, brief(r))
	}
	if !errors.Is(err, mainstem.ErrNotFound) {
		return fmt.Errorf("get %s/%q: %w, want NotFound", space, key, err)
	}
	return nil
}

func (e *env) scan(space string, r mainstem.Range) []mainstem.Record {
	e.Helper()
	return e.all(fmt.Sprintf("scan %s %+v", space, r), e.log.Scan(e.ctx, space, r))
}

func (e *env) read(space, key string, v mainstem.Versions) []mainstem.Record {
	e.Helper()
	return e.all(fmt.Sprintf("read %s/%q %+v", space, key, v), e.log.Read(e.ctx, space, []byte(key), v))
}

func (e *env) feed(f mainstem.Filter) []mainstem.Record {
	e.Helper()
	return e.all(fmt.Sprintf("feed %+v", f), e.log.Feed(e.ctx, f))
}

// all returns clones of what seq yields; an error fails the case.
func (e *env) all(doing string, seq iter.Seq2[mainstem.Record, error]) []mainstem.Record {
	e.Helper()
	out, err := collect(seq)
	if err != nil {
		e.Fatalf("%s: %v", doing, err)
	}
	return out
}

// collect returns clones of what seq yields until its error.
func collect(seq iter.Seq2[mainstem.Record, error]) ([]mainstem.Record, error) {
	var out []mainstem.Record
	for r, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, r.Clone())
	}
	return out, nil
}

func (e *env) head() mainstem.Position {
	e.Helper()
	p, err := e.log.Head(e.ctx)
	if err != nil {
		e.Fatalf("head: %v", err)
	}
	return p
}

func (e *env) info(space string) mainstem.SpaceInfo {
	e.Helper()
	in, err := e.log.Space(e.ctx, space)
	if err != nil {
		e.Fatalf("space %s: %v", space, err)
	}
	return in
}

// same fails unless got is want, and shows the first difference.
func (e *env) same(what string, got []string, want ...string) {
	e.Helper()
	if d := difference(got, want); d != "" {
		e.Fatalf("%s: %s", what, d)
	}
}

// difference describes how got differs from want, or returns "".
func difference(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	at := func(list []string) string {
		if i < len(list) {
			return list[i]
		}
		return "the end"
	}
	if len(got)+len(want) <= 16 {
		return fmt.Sprintf("\n\t got %s\n\twant %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
	return fmt.Sprintf("%d entries, want %d; entry %d is\n\t     %s\n\twant %s", len(got), len(want), i, at(got), at(want))
}

func briefs(records []mainstem.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = brief(r)
	}
	return out
}

// brief is a short form of a record for comparison: space, key, version, count,
// value and headers, but neither position nor time.
func brief(r mainstem.Record) string {
	s := fmt.Sprintf("%s/%s@%d", r.Space, plain(r.Key), r.Version)
	if r.Count != 1 {
		s += fmt.Sprintf("*%d", r.Count)
	}
	if !r.Live() {
		s += " " + r.Tombstone.String()
	}
	if r.Value != nil || r.Live() {
		s += "=" + bytesText(r.Value)
	}
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %s:%s", plain([]byte(h.Name)), bytesText(h.Value))
	}
	return s
}

// full is brief with everything else that a record says.
func full(r mainstem.Record) string {
	s := fmt.Sprintf("%s #%d %d", brief(r), r.Position, r.Time.UnixNano())
	if !r.Expires.IsZero() {
		s += fmt.Sprintf(" expires %d", r.Expires.UnixNano())
	}
	return s
}

func bytesText(b []byte) string {
	switch {
	case b == nil:
		return "nil"
	case len(b) > 64:
		return fmt.Sprintf("%q...(%d bytes, sum %x)", b[:16], len(b), checksum(b))
	}
	return plain(b)
}

// checksum is FNV-1a: equal bytes have equal sums, others hardly ever.
func checksum(b []byte) uint64 {
	sum := uint64(14695981039346656037)
	for _, c := range b {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	return sum
}

// plain quotes b only if it must.
func plain(b []byte) string {
	for _, c := range string(b) {
		if c == unicode.ReplacementChar || c == ' ' || !unicode.IsPrint(c) {
			return strconv.Quote(string(b))
		}
	}
	if len(b) == 0 {
		return `""`
	}
	return string(b)
}

// describe shows what a batch holds.
func describe(b *mainstem.Batch) string {
	var out []string
	if b.ID != "" {
		out = append(out, fmt.Sprintf("id %.20q", b.ID))
	}
	for _, en := range b.Ensures() {
		out = append(out, fmt.Sprintf("ensure %.40q", en.Space))
	}
	for _, c := range b.Conditions() {
		out = append(out, fmt.Sprintf("if %.40s/%.40q %s, version %d, position %d", c.Space, c.Key, c.Test, c.Version, c.Position))
	}
	for _, w := range b.Writes() {
		text := fmt.Sprintf("%s %.40s/%.40q", w.Op, w.Space, w.Key)
		if w.Version != 0 {
			text += fmt.Sprintf(" version %d", w.Version)
		}
		out = append(out, text)
	}
	if len(out) > 8 {
		out = append(out[:8], "...")
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// dump describes everything that a reader sees, and the spaces if it is a log.
func (e *env) dump(log mainstem.Reader) []string {
	e.Helper()
	var out []string
	p, err := log.Head(e.ctx)
	if err != nil {
		e.Fatalf("head: %v", err)
	}
	out = append(out, fmt.Sprintf("head %d", p))
	for _, r := range e.all("feed", log.Feed(e.ctx, mainstem.Filter{})) {
		out = append(out, "feed "+full(r))
	}
	manager, ok := log.(mainstem.SpaceManager)
	if !ok {
		return out
	}
	for in, err := range manager.Spaces(e.ctx, "") {
		if err != nil {
			e.Fatalf("spaces: %v", err)
		}
		out = append(out, fmt.Sprintf("space %s %+v created %d: %d keys, %d records, %d bytes, last %d, updated %d", in.Name, in.Policy,
			in.Created.UnixNano(), in.Keys, in.Records, in.Bytes, in.Last, in.Updated.UnixNano()))
		for _, r := range e.all("scan "+in.Name, log.Scan(e.ctx, in.Name, mainstem.Range{Tombstones: true})) {
			out = append(out, "scan "+full(r))
			for _, older := range e.all("read", log.Read(e.ctx, in.Name, r.Key, mainstem.Versions{})) {
				out = append(out, "read "+full(older))
			}
		}
	}
	return out
}
