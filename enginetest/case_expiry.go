package enginetest

import (
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

var expiryCases = []testCase{
	{name: "expired at once", needs: needExpiry, run: expiredAtOnce,
		promise: "A record whose time to live ran out is in no read from that moment on, swept or not."},
	{name: "expiry is of the record", needs: needExpiry | needClock, run: expiryIsOfTheRecord,
		promise: "A new write replaces the expiry of the one before: only the record that expires goes."},
	{name: "expiry in history", needs: needExpiry | needClock, run: expiryInHistory,
		promise: "An older value never comes back because a newer one expired."},
	{name: "expiry reaches followers", needs: needExpiry, run: expiryReachesFollowers,
		promise: "In a space with feed an expired key gets a tombstone of the next version, which followers receive."},
	{name: "expiry without feed", needs: needExpiry, run: expiryWithoutFeed,
		promise: "In a space without feed an expired record goes without a trace."},
	{name: "versions after expiry", needs: needExpiry, run: versionsAfterExpiry,
		promise: "Versions of a key do not repeat after it expired."},
	{name: "expiry after reopen", needs: needExpiry | needReopen, run: expiryAfterReopen,
		promise: "Times to live go on across a restart."},
	{name: "operations on expired records", needs: needExpiry | needRewrite | needClock, run: opsOnExpired,
		promise: "To every operation an expired record is not there."},
}

func expiredAtOnce(e *env) {
	e.inEvery(func(s string, p mainstem.Policy) {
		e.apply(s, "k", mainstem.Write{Value: []byte("v"), TTL: shortly})
		e.apply(s, "long", mainstem.Write{Value: []byte("v"), TTL: 1000 * time.Hour})
		e.put(s, "never", "v")
		if e.f.Clock != nil {
			e.holds(s, "k", "v")
			e.pass(shortly - 1)
			e.holds(s, "k", "v")
		}
		e.pass(shortly)
		for n := range 2 {
			e.absent(s, "k")
			e.same("a scan", briefs(e.scan(s, mainstem.Range{})), s+"/long@1=v", s+"/never@1=v")
			e.same("a read", briefs(live(e.read(s, "k", mainstem.Versions{}))))
			if !p.NoFeed {
				e.same("the feed", briefs(live(e.feed(mainstem.Filter{Spaces: []string{s}}))), s+"/long@1=v", s+"/never@1=v")
			}
			if n == 0 {
				e.sweep()
			}
		}
	})
}

func expiryIsOfTheRecord(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.apply(s, "kept", mainstem.Write{TTL: time.Minute}, mainstem.Write{Value: []byte("stays")})
		e.apply(s, "longer", mainstem.Write{TTL: time.Minute}, mainstem.Write{Value: []byte("longer"), TTL: time.Hour})
		e.apply(s, "shorter", mainstem.Write{TTL: time.Hour}, mainstem.Write{Value: []byte("shorter"), TTL: time.Minute})
		e.apply(s, "deleted", mainstem.Write{TTL: time.Minute}, mainstem.Write{Op: mainstem.OpDelete})
		e.pass(2 * time.Minute)
		for range 2 {
			e.holds(s, "kept", "stays")
			e.holds(s, "longer", "longer")
			e.absent(s, "shorter")
			e.absent(s, "deleted")
			e.sweep()
		}
		if v := e.put(s, "deleted", "v").Versions[0]; v != 3 {
			e.Fatalf("the version after a tombstone is %d, want 3: a tombstone does not expire", v)
		}
		e.pass(time.Hour)
		e.sweep()
		e.absent(s, "longer")
		e.holds(s, "kept", "stays")
	})
}

func expiryInHistory(e *env) {
	for _, p := range []mainstem.Policy{{}, {History: 3}, {History: 3, NoFeed: true}} {
		s := fmt.Sprintf("h%d-%v", p.History, p.NoFeed)
		e.space(s, p)
		e.apply(s, "k", mainstem.Write{Value: []byte("old")}, mainstem.Write{Value: []byte("new"), TTL: time.Minute})
		e.pass(time.Minute)
		for range 2 {
			e.absent(s, "k")
			if got := e.scan(s, mainstem.Range{}); len(got) != 0 {
				e.Fatalf("an older value came back in a scan: %v", briefs(got))
			}
			e.conditions([]condition{{state: s + "/k", test: mainstem.TestAbsent, holds: true}})
			e.same("what is left", briefs(live(e.read(s, "k", mainstem.Versions{}))), s+"/k@1=old")
			e.sweep()
		}
	}
}

func expiryReachesFollowers(e *env) {
	for _, p := range []mainstem.Policy{{History: 1}, {History: 3}, {}} {
		s, ttl := fmt.Sprint("h", p.History), shortly
		for !expiryReaches(e, s, p, ttl) {
			if e.f.Clock != nil || ttl > e.f.Patience {
				e.Fatalf("the followers of %s saw nothing of a value that lives for %v", s, ttl)
			}
			s, ttl = s+"x", 2*ttl // in real time it may have expired before they began
		}
	}
}

// expiryReaches writes a value that expires to a new space. It returns false if a follower saw
// nothing but its tombstone.
func expiryReaches(e *env, s string, p mainstem.Policy, ttl time.Duration) bool {
	e.space(s, p)
	fl := e.follow(mainstem.Filter{Spaces: []string{s}})
	key := e.followKey(s, "k", mainstem.Versions{})
	defer key.stop()
	defer fl.stop()
	e.apply(s, "k", mainstem.Write{Value: []byte("v"), TTL: ttl, Count: 4})
	value, tombstone := s+"/k@4*4=v", s+"/k@5 expired"
	for _, one := range []*follower{fl, key} {
		switch r := brief(one.next()); r {
		case value:
		case tombstone:
			return false
		default:
			e.Fatalf("%s: the first record is %s, want %s", one.doing, r, value)
		}
	}
	e.pass(ttl)
	var last mainstem.Record
	e.eventually("the tombstone of an expired key in "+s, func() error {
		if got := e.feed(mainstem.Filter{Spaces: []string{s}}); len(got) == 1 && got[0].Tombstone == mainstem.Expired {
			last = got[0]
			return nil
		}
		return fmt.Errorf("it is not there: the feed has %v", briefs(e.feed(mainstem.Filter{Spaces: []string{s}})))
	})
	if brief(last) != tombstone || last.Position != e.head() {
		e.Fatalf("the tombstone is %s, want version 5 at the head %d", full(last), e.head())
	}
	fl.wants(tombstone)
	key.wants(tombstone)
	e.same("a scan with tombstones", briefs(e.scan(s, mainstem.Range{Tombstones: true})), tombstone)
	e.conditions([]condition{{state: s + "/k", test: mainstem.TestVersion, v: 5, holds: true}, {state: s + "/k", test: mainstem.TestAbsent, holds: true}})
	e.counted(s, mainstem.Receipt{}, "k")
	return true
}

func expiryWithoutFeed(e *env) {
	for _, p := range []mainstem.Policy{{History: 1, NoFeed: true}, {History: 3, NoFeed: true}, {NoFeed: true}} {
		s := fmt.Sprint("h", p.History)
		e.space(s, p)
		e.apply(s, "k", mainstem.Write{Value: []byte("v"), TTL: shortly})
		e.pass(shortly)
		e.eventually("an expired key in "+s, func() error {
			if in := e.info(s); in.Keys != 0 || in.Records != 0 || in.Bytes != 0 {
				return fmt.Errorf("it is still stored: %d keys, %d records, %d bytes", in.Keys, in.Records, in.Bytes)
			}
			return nil
		})
		if got := e.read(s, "k", mainstem.Versions{}); len(got) != 0 {
			e.Fatalf("an expired key left %v", briefs(got))
		}
	}
}

func versionsAfterExpiry(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		var last mainstem.Version
		for n := range 3 {
			v := e.apply(s, "k", mainstem.Write{TTL: shortly / 2, Count: 2}).Versions[0]
			if v < last+2 {
				e.Fatalf("in %s version %d follows %d", s, v, last)
			}
			last = v
			e.pass(shortly / 2)
			if n > 0 {
				e.sweep()
			}
			if n == 1 && e.f.Reopen != nil {
				e.restart()
			}
		}
	})
}

func expiryAfterReopen(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.apply(s, "k", mainstem.Write{Value: []byte("v"), TTL: shortly})
		e.apply(s, "long", mainstem.Write{Value: []byte("v"), TTL: 1000 * time.Hour})
	})
	e.pass(shortly)
	e.restart()
	for s := range policies {
		e.absent(s, "k")
		e.holds(s, "long", "v")
		e.eventually("an expired key in "+s, func() error {
			if got := live(e.read(s, "k", mainstem.Versions{})); len(got) != 0 {
				return fmt.Errorf("it is read: %v", briefs(got))
			}
			if in := e.info(s); in.Bytes > int64(len("k")+len("long")+len("v")) {
				return fmt.Errorf("it is stored: %d bytes", in.Bytes)
			}
			return nil
		})
	}
}

func opsOnExpired(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.apply(s, "k", mainstem.Write{TTL: time.Minute})
		e.apply(s, "new", mainstem.Write{TTL: time.Minute})
		e.pass(time.Minute)
		for _, op := range []mainstem.Op{mainstem.OpDelete, mainstem.OpPurge} {
			if r := e.apply(s, "k", mainstem.Write{Op: op}); r.First != 0 || r.Versions[0] != 0 {
				e.Fatalf("%s of an expired key made %+v", op, r)
			}
		}
		b := mainstem.NewBatch()
		b.Rewrite(s, []byte("k"), 1, []byte("x"), nil)
		_, err := e.attempt(b)
		e.kind("rewrite of an expired record", err, mainstem.KindNotFound)
		r := e.commit(func(b *mainstem.Batch) { b.IfAbsent(s, []byte("new")); b.Put(s, []byte("new"), []byte("v")) })
		e.sweep()
		e.holds(s, "new", "v")
		if got := e.get(s, "new"); got.Version != r.Versions[0] || !got.Expires.IsZero() {
			e.Fatalf("a write over an expired record became %s", full(got))
		}
	})
}
