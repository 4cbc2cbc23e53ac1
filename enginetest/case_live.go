package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

var liveCases = []testCase{
	{law: Live, name: "follower wakes", run: followerWakes,
		promise: "A follower receives what was there, then wakes for every commit of what it asked for."},
	{law: Live, name: "follower of a key wakes", run: keyFollowerWakes,
		promise: "A reader that follows one key wakes for every record of that key and for no other."},
	{law: Live, name: "follower filters", run: followerFilters,
		promise: "A follower receives the spaces and keys that it asked for and nothing else."},
	{law: Live, name: "space that does not exist yet", run: followFutureSpace,
		promise: "A feed may follow a space that does not exist yet, and sees it from its first record."},
	{law: Live, name: "whole log", run: followWholeLog,
		promise: "A follower of the whole log receives spaces created later too."},
	{law: Live, name: "follower sees tombstones", run: followerSeesTombstones,
		promise: "Deletes and purges reach followers as tombstones; a forgotten key leaves no trace."},
	{law: Live, name: "limit ends a follower", run: limitEndsFollower,
		promise: "A follower with a limit ends without an error after that many records."},
	{law: Live, name: "break ends a follower", run: breakEndsFollower,
		promise: "A follower whose loop breaks ends, and the log works on."},
	{law: Live, name: "cancel ends a follower", run: cancelEndsFollower,
		promise: "A waiting follower ends with Canceled when its context does, wrapping the cause."},
	{law: Live, name: "close ends a follower", run: closeEndsFollower,
		promise: "Waiting followers end with Closed when the log is closed."},
	{law: Live, name: "dropped and created again", run: followDroppedSpace,
		promise: "A feed follows a name: when its space is dropped and created again it goes on with the new one."},
	{law: Live, name: "many followers", run: manyFollowers,
		promise: "Every one of many followers receives every record, the slow ones too."},
	{law: Live, name: "commit from inside a follower", run: commitInsideFollower,
		promise: "The body of a follower may commit and read: a sequence holds no lock while its body runs."},
}

func followerWakes(e *env) {
	e.space("s", mainstem.Policy{})
	e.put("s", "a", "1")
	p := e.put("s", "b", "1").Last
	fl, late := e.follow(mainstem.Filter{}), e.follow(mainstem.Filter{After: p})
	fl.wants("s/a@1=1", "s/b@1=1")
	for n := range 20 {
		e.put("s", "a", fmt.Sprint(n))
		want := fmt.Sprintf("s/a@%d=%d", n+2, n)
		fl.wants(want)
		late.wants(want)
	}
	e.commit(func(b *mainstem.Batch) { b.Put("s", []byte("x"), nil); b.Put("s", []byte("y"), nil) })
	fl.wants("s/x@1=nil", "s/y@1=nil")
	late.wants("s/x@1=nil", "s/y@1=nil")
	fl.stop()
	late.stop()
}

func keyFollowerWakes(e *env) {
	e.space("s", mainstem.Policy{})
	e.put("s", "k", "1")
	fl, late := e.followKey("s", "k", mainstem.Versions{}), e.followKey("s", "k", mainstem.Versions{From: 4})
	limited := e.followKey("s", "new", mainstem.Versions{Limit: 2})
	fl.wants("s/k@1=1")
	e.put("s", "other", "x")
	e.put("s", "k\x00", "x")
	e.put("s", "k", "2")
	fl.wants("s/k@2=2")
	e.apply("s", "k", mainstem.Write{Count: 3, Value: []byte("3")}, mainstem.Write{Op: mainstem.OpDelete}, mainstem.Write{})
	fl.wants("s/k@5*3=3", "s/k@6 deleted", "s/k@7=nil")
	late.wants("s/k@5*3=3", "s/k@6 deleted", "s/k@7=nil")
	for n := range 3 {
		e.put("s", "new", fmt.Sprint(n))
	}
	limited.wants("s/new@1=0", "s/new@2=1")
	if err := limited.ended(); err != nil {
		e.Fatalf("a follower that reached its limit ended with %v", err)
	}
	fl.stop()
	late.stop()
}

func followerFilters(e *env) {
	for _, s := range []string{"a", "a2", "a/b", "b"} {
		e.space(s, mainstem.Policy{})
	}
	e.space("quiet", mainstem.Policy{NoFeed: true})
	one := e.follow(mainstem.Filter{Spaces: []string{"a"}})
	two := e.follow(mainstem.Filter{Spaces: []string{"b", "a/b", "quiet"}, KeyPrefix: []byte("k")})
	for n := range 10 {
		for _, s := range []string{"a2", "quiet", "b", "a/b", "a"} {
			e.put(s, "k", fmt.Sprint(n))
			e.put(s, "j", fmt.Sprint(n))
			e.put(s, "l", fmt.Sprint(n))
		}
		v := n + 1
		one.wants(fmt.Sprintf("a/k@%d=%d", v, n), fmt.Sprintf("a/j@%d=%d", v, n), fmt.Sprintf("a/l@%d=%d", v, n))
		two.wants(fmt.Sprintf("b/k@%d=%d", v, n), fmt.Sprintf("a/b/k@%d=%d", v, n))
	}
	one.stop()
	two.stop()
}

func followFutureSpace(e *env) {
	fl := e.follow(mainstem.Filter{Spaces: []string{"future"}})
	both := e.follow(mainstem.Filter{Spaces: []string{"future", "other"}})
	e.space("other", mainstem.Policy{})
	e.put("other", "k", "1")
	both.wants("other/k@1=1")
	e.commit(func(b *mainstem.Batch) {
		b.Ensure("future", mainstem.Policy{History: 1})
		b.Put("future", []byte("k"), []byte("1"))
	})
	fl.wants("future/k@1=1")
	both.wants("future/k@1=1")
	e.put("future", "k", "2")
	fl.wants("future/k@2=2")
	both.wants("future/k@2=2")
	fl.stop()
	both.stop()
}

func followWholeLog(e *env) {
	fl := e.follow(mainstem.Filter{})
	for n := range 5 {
		s := fmt.Sprint("s", n)
		e.space(s, mainstem.Policy{})
		e.put(s, "k", "v")
		fl.wants(s + "/k@1=v")
	}
	fl.stop()
}

func followerSeesTombstones(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 1})
	fl := e.follow(mainstem.Filter{})
	for _, s := range []string{"s", "b"} {
		e.put(s, "k", "v")
		fl.wants(s + "/k@1=v")
		e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete, Headers: mainstem.Headers{{Name: "by", Value: []byte("me")}}})
		fl.wants(s + "/k@2 deleted by:me")
		e.put(s, "k", "w")
		fl.wants(s + "/k@3=w")
		e.apply(s, "k", mainstem.Write{Op: mainstem.OpPurge})
		fl.wants(s + "/k@4 purged")
		e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete}) // not live: no record
		if e.f.Forget {
			e.put(s, "f", "v")
			fl.wants(s + "/f@1=v")
			e.apply(s, "f", mainstem.Write{Op: mainstem.OpForget})
		}
		// A key that is new after another was forgotten may begin above 1.
		next := e.put(s, "next", "v").Versions[0]
		fl.wants(fmt.Sprintf("%s/next@%d=v", s, next))
	}
	fl.stop()
}

func limitEndsFollower(e *env) {
	e.space("s", mainstem.Policy{})
	there := 3
	for n := range there {
		e.put("s", fmt.Sprint(n), "v")
	}
	for limit := 1; limit <= 5; limit++ {
		fl := e.follow(mainstem.Filter{Limit: limit})
		for n := range limit {
			if n == there {
				e.put("s", fmt.Sprint(n), "v")
				there++
			}
			if r := fl.next(); string(r.Key) != fmt.Sprint(n) {
				e.Fatalf("record %d of a follower is %s", n, brief(r))
			}
		}
		if err := fl.ended(); err != nil {
			e.Fatalf("a follower that reached its limit of %d ended with %v", limit, err)
		}
	}
}

func breakEndsFollower(e *env) {
	e.space("s", mainstem.Policy{})
	for range 50 {
		p := e.put("s", "k", "v").Last
		for r, err := range e.log.Feed(e.ctx, mainstem.Filter{After: p - 1, Follow: true}) {
			if err != nil || r.Position != p {
				e.Fatalf("following after %d: %s, %v", p-1, full(r), err)
			}
			break
		}
		for _, err := range e.log.Read(e.ctx, "s", []byte("k"), mainstem.Versions{Follow: true}) {
			if err != nil {
				e.Fatalf("following a key: %v", err)
			}
			break
		}
	}
	e.put("s", "k", "end")
	e.holds("s", "k", "end")
}

func cancelEndsFollower(e *env) {
	e.space("s", mainstem.Policy{})
	e.put("s", "k", "v")
	fl, key := e.follow(mainstem.Filter{}), e.followKey("s", "k", mainstem.Versions{})
	fl.wants("s/k@1=v")
	key.wants("s/k@1=v")
	for _, f := range []*follower{fl, key} {
		f.cancel()
		if err := f.ended(); !errors.Is(err, mainstem.ErrCanceled) || !errors.Is(err, context.Canceled) {
			e.Fatalf("%s: ended with %v, want Canceled wrapping %v", f.doing, err, context.Canceled)
		}
	}
	// A deadline that passes before the follower waits has nothing to say of the waiting.
	text := ""
	for limit := 20 * time.Millisecond; limit < e.f.Patience; limit *= 4 {
		ctx, cancel := context.WithTimeout(e.ctx, limit)
		late := e.start("feed until a deadline", cancel, e.log.Feed(ctx, mainstem.Filter{Spaces: []string{"nowhere"}, Follow: true}))
		err := late.ended()
		cancel()
		e.deadline("a follower", err)
		if text = err.Error(); strings.Contains(text, " after ") && strings.Contains(text, ", waiting for ") {
			return
		}
	}
	e.Fatalf("a follower ended with %q, want how long it waited, and for what", text)
}

func closeEndsFollower(e *env) {
	e.space("s", mainstem.Policy{})
	e.put("s", "k", "v")
	all := []*follower{e.follow(mainstem.Filter{}), e.follow(mainstem.Filter{Spaces: []string{"s"}}), e.followKey("s", "k", mainstem.Versions{})}
	for _, fl := range all {
		fl.wants("s/k@1=v")
	}
	all = append(all, e.follow(mainstem.Filter{Spaces: []string{"nowhere"}}), e.followKey("s", "nothing", mainstem.Versions{}))
	if err := e.log.Close(); err != nil {
		e.Fatalf("close: %v", err)
	}
	for _, fl := range all {
		e.kind(fl.doing+" when the log was closed", fl.ended(), mainstem.KindClosed)
	}
}

func followDroppedSpace(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("other", mainstem.Policy{})
	fl, all := e.follow(mainstem.Filter{Spaces: []string{"s"}}), e.follow(mainstem.Filter{})
	for n := range 3 {
		value := fmt.Sprint("life ", n)
		e.put("s", "k", value)
		for _, f := range []*follower{fl, all} {
			if r := f.next(); r.Space != "s" || string(r.Value) != value {
				e.Fatalf("%s: the next record is %s, want that of %q", f.doing, brief(r), value)
			}
		}
		if err := e.log.DropSpace(e.ctx, "s"); err != nil {
			e.Fatalf("drop: %v", err)
		}
		e.put("other", "k", value)
		if r := all.next(); r.Space != "other" {
			e.Fatalf("a follower of all received %s, want the record of the other space", brief(r))
		}
		e.space("s", mainstem.Policy{History: 1})
	}
	fl.stop()
	all.stop()
}

func manyFollowers(e *env) {
	const followers, records = 30, 100
	e.space("s", mainstem.Policy{})
	e.parallel(followers+1, func(i int) error {
		if i == 0 {
			for n := range records {
				b := mainstem.NewBatch()
				b.Put("s", []byte("k"), fmt.Append(nil, n))
				if _, err := e.attempt(b); err != nil {
					return err
				}
			}
			return nil
		}
		n := 0
		for r, err := range e.log.Feed(e.ctx, mainstem.Filter{Follow: true, Limit: records}) {
			if err != nil {
				return err
			}
			if string(r.Value) != fmt.Sprint(n) {
				return fmt.Errorf("record %d of a follower is %s", n, brief(r))
			}
			if n++; i%10 == 0 {
				time.Sleep(time.Millisecond) // a slow one
			}
		}
		if n != records {
			return fmt.Errorf("a follower received %d records, want %d", n, records)
		}
		return nil
	})
}

func commitInsideFollower(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("out", mainstem.Policy{})
	e.put("s", "k", "0")
	n := 0
	for r, err := range e.log.Feed(e.ctx, mainstem.Filter{Spaces: []string{"s"}, Follow: true}) {
		if err != nil {
			e.Fatalf("after %d records: %v", n, err)
		}
		if n++; n == 20 {
			break
		}
		value := r.Clone().Value
		e.commit(func(b *mainstem.Batch) {
			b.Put("out", value, value)
			b.Put("s", []byte("k"), fmt.Append(nil, n))
		})
		e.holds("out", string(value), string(value))
		for range e.scan("out", mainstem.Range{}) {
			e.head()
		}
	}
	if got := len(e.feed(mainstem.Filter{Spaces: []string{"out"}})); got != 19 {
		e.Fatalf("the loop committed 19 records, %d are there", got)
	}
	for range e.log.Scan(e.ctx, "s", mainstem.Range{}) {
		e.put("s", "inside a scan", "v")
	}
	for range e.log.Read(e.ctx, "s", []byte("k"), mainstem.Versions{}) {
		e.put("s", "inside a read", "v")
	}
}
