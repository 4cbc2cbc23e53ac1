package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
)

var conditionalCases = []testCase{
	{law: Conditional, name: "every condition in every state", run: everyCondition,
		promise: "A condition holds or fails by the state of its key: unknown space, never written, live, deleted, purged."},
	{law: Conditional, name: "conditions after truncate", needs: needTruncate, run: conditionsAfterTruncate,
		promise: "A key whose records were all truncated keeps its newest version for TestVersion and is absent."},
	{law: Conditional, name: "conditions after expiry", needs: needExpiry, run: conditionsAfterExpiry,
		promise: "A key whose value expired is absent at once."},
	{law: Conditional, name: "all conditions must hold", run: allConditionsMustHold,
		promise: "One condition that fails among many fails the batch and is the one that the error names."},
	{law: Conditional, name: "tested before the batch", run: testedBeforeTheBatch,
		promise: "Conditions see the state before the batch, whatever the batch itself writes or creates."},
	{law: Conditional, name: "conditions on other keys", run: conditionsOnOtherKeys,
		promise: "Conditions may be on keys and spaces that the batch does not write."},
	{law: Conditional, name: "conditions alone", run: conditionsAlone,
		promise: "A batch of conditions only succeeds with an empty receipt if they hold, else fails with Conflict."},
	{law: Conditional, name: "views explain conflicts", run: viewsExplain,
		promise: "Commit returns a Conflict as the views put it that wrote the batch, and every other error as it is."},
	{law: Conditional, name: "compare and set counts exactly", run: compareAndSetCounts,
		promise: "Increments by compare-and-set from many clients lose none."},
	{law: Conditional, name: "create if absent has one winner", run: oneWinner,
		promise: "Of many clients that create the same absent key, exactly one succeeds."},
	{law: Conditional, name: "transfers keep the sum", run: transfersKeepTheSum,
		promise: "Batches that change two keys under conditions on both keep what they keep invariant, for every reader."},
}

// spaceExplainer explains conflicts of one space.
type spaceExplainer struct{ space string }

type plainError struct{ cause *mainstem.Error }

func (p plainError) Error() string { return "in plain words: " + p.cause.Error() }
func (p plainError) Unwrap() error { return p.cause }

func (p spaceExplainer) ExplainConflict(_ context.Context, _ *mainstem.Batch, e *mainstem.Error) error {
	if e.Space != p.space {
		return nil
	}
	return plainError{e}
}

func viewsExplain(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("t", mainstem.Policy{})
	e.put("s", "k", "v")
	e.put("t", "k", "v")
	for _, space := range []string{"s", "t"} {
		b := mainstem.NewBatch()
		b.ExplainWith(spaceExplainer{"other"})
		b.ExplainWith(spaceExplainer{"s"})
		b.IfVersion(space, []byte("k"), 7)
		b.Put(space, []byte("k"), nil)
		_, err := e.log.Commit(e.ctx, b)
		failure := e.kind("commit", err, mainstem.KindConflict)
		var said plainError
		if errors.As(err, &said) != (space == "s") || failure.Space != space || failure.Got != 1 || failure.Outcome != mainstem.NotWritten {
			e.Fatalf("a conflict in space %s, which s explains, is %v", space, err)
		}
	}
	b := mainstem.NewBatch()
	b.ExplainWith(spaceExplainer{"nowhere"})
	b.Put("nowhere", []byte("k"), nil)
	_, err := e.log.Commit(e.ctx, b)
	e.kind("commit to an unknown space", err, mainstem.KindNotFound)
	if said := (plainError{}); errors.As(err, &said) {
		e.Fatalf("an error that is no conflict was explained: %v", err)
	}
}

// condition is a test on a key with what must come of it.
type condition struct {
	state string // space/key
	test  mainstem.Test
	v     mainstem.Version
	holds bool
	got   mainstem.Version // what a Conflict says
	live  bool
}

func (e *env) conditions(list []condition) {
	e.Helper()
	for _, c := range list {
		space, key, _ := bytes.Cut([]byte(c.state), []byte("/"))
		cond := mainstem.Condition{Space: string(space), Key: key, Test: c.test, Version: c.v}
		if c.holds {
			b := mainstem.NewBatch()
			b.If(cond)
			if _, err := e.attempt(b); err != nil {
				e.Fatalf("%+v on %s: %v, want it to hold", cond, c.state, err)
			}
			continue
		}
		err := e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
			b.If(cond)
			b.Put("other", []byte("k"), []byte("must not be written"))
		})
		w := err.Want
		if w.Space != cond.Space || !bytes.Equal(w.Key, cond.Key) || w.Test != cond.Test || w.Version != cond.Version {
			e.Fatalf("%+v on %s: the conflict wants %+v", cond, c.state, w)
		}
		if err.Got != c.got || err.GotLive != c.live {
			e.Fatalf("%+v on %s: the conflict got version %d, live %v; want version %d, live %v", cond, c.state, err.Got, err.GotLive, c.got, c.live)
		}
	}
}

func everyCondition(e *env) {
	const absent, exists, version = mainstem.TestAbsent, mainstem.TestExists, mainstem.TestVersion
	e.space("other", mainstem.Policy{})
	for _, p := range []mainstem.Policy{{}, {History: 1}, {History: 3}, {NoFeed: true}} {
		s := fmt.Sprintf("h%d-%v", p.History, p.NoFeed)
		e.space(s, p)
		for range 3 {
			for _, key := range []string{"live", "deleted", "purged", "again"} {
				e.put(s, key, "v")
			}
		}
		e.apply(s, "deleted", mainstem.Write{Op: mainstem.OpDelete})
		e.apply(s, "purged", mainstem.Write{Op: mainstem.OpPurge})
		e.apply(s, "again", mainstem.Write{Op: mainstem.OpDelete}, mainstem.Write{})
		e.apply(s, "counted", mainstem.Write{Count: 5})
		e.conditions([]condition{
			{state: s + "/never", test: absent, holds: true},
			{state: s + "/never", test: exists},
			{state: s + "/never", test: version, v: 1},
			{state: s + "/live", test: absent, got: 3, live: true},
			{state: s + "/live", test: exists, holds: true},
			{state: s + "/live", test: version, v: 3, holds: true},
			{state: s + "/live", test: version, v: 2, got: 3, live: true},
			{state: s + "/live", test: version, v: 4, got: 3, live: true},
			{state: s + "/deleted", test: absent, holds: true},
			{state: s + "/deleted", test: exists, got: 4},
			{state: s + "/deleted", test: version, v: 4, holds: true},
			{state: s + "/deleted", test: version, v: 3, got: 4},
			{state: s + "/purged", test: absent, holds: true},
			{state: s + "/purged", test: exists, got: 4},
			{state: s + "/purged", test: version, v: 4, holds: true},
			{state: s + "/again", test: absent, got: 5, live: true},
			{state: s + "/again", test: version, v: 5, holds: true},
			{state: s + "/counted", test: version, v: 5, holds: true},
			{state: s + "/counted", test: version, v: 1, got: 5, live: true},
		})
	}
	e.conditions([]condition{
		{state: "nowhere/k", test: absent, holds: true},
		{state: "nowhere/k", test: exists},
		{state: "nowhere/k", test: version, v: 1},
	})
}

func conditionsAfterTruncate(e *env) {
	e.space("other", mainstem.Policy{})
	for _, p := range []mainstem.Policy{{}, {History: 1}, {History: 2}} {
		s := fmt.Sprintf("h%d", p.History)
		e.space(s, p)
		e.apply(s, "k", mainstem.Write{}, mainstem.Write{}, mainstem.Write{})
		e.apply(s, "k", mainstem.Write{Op: mainstem.OpTruncate, Version: 4})
		e.conditions([]condition{
			{state: s + "/k", test: mainstem.TestAbsent, holds: true},
			{state: s + "/k", test: mainstem.TestExists, got: 3},
			{state: s + "/k", test: mainstem.TestVersion, v: 3, holds: true},
			{state: s + "/k", test: mainstem.TestVersion, v: 2, got: 3},
		})
		if r := e.put(s, "k", "v"); r.Versions[0] != 4 {
			e.Fatalf("the version after truncation is %d, want 4", r.Versions[0])
		}
	}
}

func conditionsAfterExpiry(e *env) {
	for _, p := range []mainstem.Policy{{}, {History: 1}, {History: 2, NoFeed: true}} {
		s := fmt.Sprintf("h%d", p.History)
		e.space(s, p)
		e.apply(s, "k", mainstem.Write{}, mainstem.Write{TTL: shortly})
		e.pass(2 * shortly)
		b := mainstem.NewBatch()
		b.IfExists(s, []byte("k"))
		_, err := e.attempt(b)
		if c := e.kind("commit if an expired key exists", err, mainstem.KindConflict); c.GotLive || c.Got < 2 {
			e.Fatalf("%v: got version %d, live %v, want one of at least 2 that is not live", err, c.Got, c.GotLive)
		}
		r := e.commit(func(b *mainstem.Batch) { b.IfAbsent(s, []byte("k")); b.Put(s, []byte("k"), []byte("new")) })
		if r.Versions[0] < 3 {
			e.Fatalf("the version after an expired one is %d: it repeats", r.Versions[0])
		}
		e.holds(s, "k", "new")
	}
}

func allConditionsMustHold(e *env) {
	e.seeded()
	hold := []func(b *mainstem.Batch){
		func(b *mainstem.Batch) { b.IfVersion("s", []byte("twice"), 2) },
		func(b *mainstem.Batch) { b.IfExists("b", []byte("live")) },
		func(b *mainstem.Batch) { b.IfAbsent("b", []byte("gone")) },
		func(b *mainstem.Batch) { b.IfAbsent("nowhere", []byte("k")) },
	}
	for i := range len(hold) + 1 {
		err := e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
			for _, f := range hold[:i] {
				f(b)
			}
			b.IfVersion("s", []byte("live"), 9)
			for _, f := range hold[i:] {
				f(b)
			}
			muchWork(b)
		})
		if string(err.Want.Key) != "live" || err.Want.Version != 9 || err.Got != 1 {
			e.Fatalf("the conflict names %+v and version %d, want key live, version 9 and 1", err.Want, err.Got)
		}
	}
	e.commit(func(b *mainstem.Batch) {
		for _, f := range hold {
			f(b)
		}
		muchWork(b)
	})
	e.holds("new", "k", "x")
}

func testedBeforeTheBatch(e *env) {
	e.seeded()
	e.commit(func(b *mainstem.Batch) {
		b.Put("s", []byte("k"), []byte("1"))
		b.IfAbsent("s", []byte("k")) // although the batch has just put it
		b.Delete("s", []byte("live"))
		b.IfExists("s", []byte("live"))
		b.IfVersion("s", []byte("twice"), 2)
		b.Put("s", []byte("twice"), nil)
		b.Ensure("new", mainstem.Policy{})
		b.Put("new", []byte("k"), nil)
		b.IfAbsent("new", []byte("k"))
	})
	e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
		b.Put("s", []byte("k2"), nil)
		b.IfExists("s", []byte("k2"))
	})
	e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
		b.Put("s", []byte("k"), nil)
		b.IfVersion("s", []byte("k"), 2)
	})
}

func conditionsOnOtherKeys(e *env) {
	e.seeded()
	e.commit(func(b *mainstem.Batch) { b.IfVersion("b", []byte("twice"), 2); b.Put("s", []byte("k"), []byte("1")) })
	e.put("b", "twice", "3")
	e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
		b.IfVersion("b", []byte("twice"), 2)
		b.Put("s", []byte("k"), []byte("2"))
	})
	e.holds("s", "k", "1")
}

func conditionsAlone(e *env) {
	e.seeded()
	before := e.dump(e.log)
	r := e.commit(func(b *mainstem.Batch) { b.IfExists("s", []byte("live")); b.IfAbsent("b", []byte("gone")) })
	if r.First != 0 || r.Last != 0 || r.Duplicate {
		e.Fatalf("the receipt of a batch without writes is %+v, want an empty one", r)
	}
	if r = e.commit(func(*mainstem.Batch) {}); r.First != 0 || r.Last != 0 {
		e.Fatalf("the receipt of an empty batch is %+v, want an empty one", r)
	}
	e.unchanged(before, "after batches without writes")
	e.refused(mainstem.KindConflict, func(b *mainstem.Batch) { b.IfAbsent("s", []byte("live")) })
}

func compareAndSetCounts(e *env) {
	const clients, increments = 8, 25
	e.space("b", mainstem.Policy{History: 1})
	e.put("b", "n", "0")
	e.parallel(clients, func(int) error {
		for range increments {
			if err := e.increment("b", "n"); err != nil {
				return err
			}
		}
		return nil
	})
	e.holds("b", "n", strconv.Itoa(clients*increments))
	if r := e.get("b", "n"); r.Version != clients*increments+1 {
		e.Fatalf("%d increments made version %d", clients*increments, r.Version)
	}
}

// increment adds one to the number in a key, trying until no one else did.
func (e *env) increment(space, key string) error {
	for {
		r, err := e.log.Get(e.ctx, space, []byte(key))
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return err
		}
		b := mainstem.NewBatch()
		b.IfVersion(space, []byte(key), r.Version)
		b.Put(space, []byte(key), []byte(strconv.Itoa(n+1)))
		if _, err = e.attempt(b); err == nil || !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
}

func oneWinner(e *env) {
	e.space("b", mainstem.Policy{History: 1})
	for round := range 20 {
		key := []byte(fmt.Sprint(round))
		var won atomic.Int64
		e.parallel(8, func(i int) error {
			b := mainstem.NewBatch()
			b.IfAbsent("b", key)
			b.Put("b", key, []byte{byte(i)})
			_, err := e.attempt(b)
			if errors.Is(err, mainstem.ErrConflict) {
				return nil
			}
			won.Add(1)
			return err
		})
		if n := won.Load(); n != 1 {
			e.Fatalf("%d clients created the same absent key", n)
		}
	}
}

func transfersKeepTheSum(e *env) {
	const accounts, each = 4, 100
	e.space("b", mainstem.Policy{History: 1})
	for i := range accounts {
		e.put("b", fmt.Sprint(i), strconv.Itoa(each))
	}
	var done atomic.Int64
	e.parallel(5, func(w int) error {
		if w == 0 {
			for done.Load() < 4 {
				if err := e.sum("b", accounts*each); err != nil {
					return err
				}
			}
			return e.sum("b", accounts*each)
		}
		defer done.Add(1)
		for n := range 25 {
			if err := e.transfer("b", fmt.Sprint((w+n)%accounts), fmt.Sprint((w+2*n+1)%accounts)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *env) sum(space string, want int) error {
	sum := 0
	for r, err := range e.log.Scan(e.ctx, space, mainstem.Range{}) {
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			return err
		}
		sum += n
	}
	if sum != want {
		return fmt.Errorf("the accounts hold %d, want %d", sum, want)
	}
	return nil
}

// transfer moves one from an account to another, trying until no one else
// touched either.
func (e *env) transfer(space, from, to string) error {
	if from == to {
		return nil
	}
	for {
		b := mainstem.NewBatch()
		for key, change := range map[string]int{from: -1, to: 1} {
			r, err := e.log.Get(e.ctx, space, []byte(key))
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(r.Value))
			if err != nil {
				return err
			}
			b.IfVersion(space, []byte(key), r.Version)
			b.Put(space, []byte(key), []byte(strconv.Itoa(n+change)))
		}
		if _, err := e.attempt(b); err == nil || !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
}
