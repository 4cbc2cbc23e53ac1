package enginetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

var snapshotCases = []testCase{
	{name: "snapshot stands still", needs: needSnapshot, run: snapshotStandsStill,
		promise: "A snapshot shows the log as it was, by every read, whatever is committed, removed or dropped afterwards."},
	{name: "snapshot in time", needs: needSnapshot | needExpiry | needClock, run: snapshotInTime,
		promise: "In a snapshot nothing expires after it was taken."},
	{name: "snapshot refuses to follow", needs: needSnapshot, run: snapshotRefusesToFollow,
		promise: "Follow is Unsupported on a snapshot."},
	{name: "closed snapshot", needs: needSnapshot, run: closedSnapshot,
		promise: "Every read of a closed snapshot is Closed; closing twice is no error."},
	{name: "close with an open snapshot", needs: needSnapshot, run: closeWithSnapshot,
		promise: "Closing a log does not wait for its snapshots: they are Closed with it."},
	{name: "snapshot reads like the log", needs: needSnapshot, run: snapshotReadsLikeLog,
		promise: "Ranges, versions, filters and errors of a snapshot are those of the log."},
	{name: "check counts", needs: needCheck, run: checkCounts,
		promise: "Check walks everything: its numbers are those of the spaces, and a sound log has no problem."},
	{name: "backup and restore", needs: needRestore, run: backupAndRestore,
		promise: "A log restored from a backup is the log at the time of the backup, and goes on from there."},
	{name: "backup while writing", needs: needRestore, run: backupWhileWriting,
		promise: "A backup of a log that is written holds every batch acknowledged before it, and only whole batches."},
}

// snapshot takes one of the log as it is.
func (e *env) snapshot() mainstem.Snapshot {
	e.Helper()
	s, err := e.log.(mainstem.Snapshotter).Snapshot(e.ctx)
	if err != nil {
		e.Fatalf("snapshot: %v", err)
	}
	return s
}

// readAll describes what every read of a reader says about the spaces given.
func (e *env) readAll(r mainstem.Reader, spaces ...string) []string {
	e.Helper()
	out := e.dump(r)[:1]
	for _, rec := range e.all("feed", r.Feed(e.ctx, mainstem.Filter{})) {
		out = append(out, "feed "+full(rec))
	}
	for _, s := range spaces {
		scan, err := collect(r.Scan(e.ctx, s, mainstem.Range{Tombstones: true}))
		if err != nil {
			out = append(out, "scan "+s+": "+mainstem.KindOf(err).String())
			continue
		}
		for _, rec := range scan {
			out = append(out, "scan "+full(rec))
			for _, older := range e.all("read", r.Read(e.ctx, s, rec.Key, mainstem.Versions{})) {
				out = append(out, "read "+full(older))
			}
			got, err := r.Get(e.ctx, s, rec.Key)
			out = append(out, fmt.Sprintf("get %s %v", full(got), err == nil))
		}
	}
	return out
}

func snapshotStandsStill(e *env) {
	e.seeded()
	e.commit(muchWork)
	spaces := []string{"s", "b", "new", "later"}
	want := e.readAll(e.log, spaces...)
	s := e.snapshot()
	defer s.Close()
	e.same("a fresh snapshot", e.readAll(s, spaces...), want...)
	e.commit(muchWork)
	e.apply("s", "live", mainstem.Write{Op: mainstem.OpPurge})
	if e.f.Forget && e.f.Rewrite {
		e.apply("s", "fresh", mainstem.Write{Op: mainstem.OpRewrite, Version: 1, Value: []byte("rewritten")})
		e.apply("b", "fresh", mainstem.Write{Op: mainstem.OpForget})
	}
	e.space("later", mainstem.Policy{})
	e.put("later", "k", "v")
	for n := range 200 {
		e.put("b", "live", fmt.Sprint(n))
	}
	e.sweep()
	if err := e.log.DropSpace(e.ctx, "new"); err != nil {
		e.Fatalf("drop: %v", err)
	}
	e.same("a snapshot while the log went on", e.readAll(s, spaces...), want...)
	if second := e.snapshot(); true {
		e.same("a later snapshot", e.readAll(second, spaces...), e.readAll(e.log, spaces...)...)
		if err := second.Close(); err != nil {
			e.Fatalf("close a snapshot: %v", err)
		}
	}
	e.same("a snapshot after another was closed", e.readAll(s, spaces...), want...)
}

func snapshotInTime(e *env) {
	e.space("b", mainstem.Policy{History: 1})
	e.apply("b", "k", mainstem.Write{Value: []byte("v"), TTL: time.Minute})
	s := e.snapshot()
	defer s.Close()
	e.pass(time.Hour)
	for range 2 {
		e.absent("b", "k")
		if r, err := s.Get(e.ctx, "b", []byte("k")); err != nil || string(r.Value) != "v" {
			e.Fatalf("a snapshot loses a record that expires later: %s, %v", brief(r), err)
		}
		e.same("a scan of the snapshot", briefs(e.all("scan", s.Scan(e.ctx, "b", mainstem.Range{}))), "b/k@1=v")
		e.same("the feed of the snapshot", briefs(e.all("feed", s.Feed(e.ctx, mainstem.Filter{}))), "b/k@1=v")
		e.sweep()
	}
	late := e.snapshot()
	defer late.Close()
	if err := isAbsent(e, late, "b", "k"); err != nil {
		e.Fatalf("in a later snapshot: %v", err)
	}
}

func snapshotRefusesToFollow(e *env) {
	e.seeded()
	s := e.snapshot()
	defer s.Close()
	for _, f := range []mainstem.Filter{{Follow: true}, {Follow: true, Limit: 1}, {Follow: true, Spaces: []string{"nowhere"}}} {
		got, err := collect(s.Feed(e.ctx, f))
		e.kind("follow a snapshot", err, mainstem.KindUnsupported)
		if len(got) != 0 {
			e.Fatalf("following a snapshot yields %v before it is refused", briefs(got))
		}
	}
	_, err := collect(s.Read(e.ctx, "s", []byte("live"), mainstem.Versions{Follow: true}))
	e.kind("follow a key of a snapshot", err, mainstem.KindUnsupported)
}

func closedSnapshot(e *env) {
	e.seeded()
	s, other := e.snapshot(), e.snapshot()
	for range 2 {
		if err := s.Close(); err != nil {
			e.Fatalf("close a snapshot: %v", err)
		}
	}
	for doing, err := range map[string]error{
		"get":  second(s.Get(e.ctx, "s", []byte("live"))),
		"scan": second(collect(s.Scan(e.ctx, "s", mainstem.Range{}))),
		"read": second(collect(s.Read(e.ctx, "s", []byte("live"), mainstem.Versions{}))),
		"feed": second(collect(s.Feed(e.ctx, mainstem.Filter{}))),
		"head": second(s.Head(e.ctx)),
	} {
		e.kind(doing+" of a closed snapshot", err, mainstem.KindClosed)
	}
	if _, err := other.Get(e.ctx, "s", []byte("live")); err != nil {
		e.Fatalf("closing one snapshot broke another: %v", err)
	}
	e.holds("s", "live", "1")
	if err := other.Close(); err != nil {
		e.Fatalf("close a snapshot: %v", err)
	}
	if err := e.log.Close(); err != nil {
		e.Fatalf("close: %v", err)
	}
	_, err := e.log.(mainstem.Snapshotter).Snapshot(e.ctx)
	e.kind("snapshot of a closed log", err, mainstem.KindClosed)
}

func closeWithSnapshot(e *env) {
	e.seeded()
	s := e.snapshot()
	if err := e.closed(); err != nil {
		e.Fatalf("close with an open snapshot: %v", err)
	}
	_, err := s.Get(e.ctx, "s", []byte("live"))
	e.kind("get of a snapshot of a closed log", err, mainstem.KindClosed)
	if err := s.Close(); err != nil {
		e.Fatalf("close a snapshot of a closed log: %v", err)
	}
}

func snapshotReadsLikeLog(e *env) {
	e.seeded()
	e.commit(muchWork)
	s := e.snapshot()
	defer s.Close()
	for _, r := range []mainstem.Range{{Reverse: true}, {Prefix: []byte("t"), Tombstones: true}, {Start: []byte("g"), End: []byte("l")}, {Limit: 2, KeysOnly: true}, {Limit: -1}} {
		same(e, fmt.Sprintf("scan %+v", r), func(l mainstem.Reader) ([]mainstem.Record, error) {
			return collect(l.Scan(e.ctx, "b", r))
		}, s)
	}
	for _, v := range []mainstem.Versions{{Reverse: true}, {From: 2}, {To: 1}, {Limit: 1}, {Limit: -1}} {
		same(e, fmt.Sprintf("read %+v", v), func(l mainstem.Reader) ([]mainstem.Record, error) {
			return collect(l.Read(e.ctx, "s", []byte("twice"), v))
		}, s)
	}
	for _, f := range []mainstem.Filter{{After: 3}, {Spaces: []string{"b", "nowhere"}}, {KeyPrefix: []byte("l")}, {Limit: 2}, {Limit: -1}} {
		same(e, fmt.Sprintf("feed %+v", f), func(l mainstem.Reader) ([]mainstem.Record, error) {
			return collect(l.Feed(e.ctx, f))
		}, s)
	}
	for _, at := range [][2]string{{"s", "nothing"}, {"s", "twice"}, {"nowhere", "k"}, {"s", ""}, {"b", "live"}} {
		same(e, fmt.Sprintf("get %q", at), func(l mainstem.Reader) ([]mainstem.Record, error) {
			r, err := l.Get(e.ctx, at[0], []byte(at[1]))
			return []mainstem.Record{r}, err
		}, s)
	}
	_, err := collect(s.Scan(e.ctx, "nowhere", mainstem.Range{}))
	e.kind("scan of an unknown space", err, mainstem.KindNotFound)
}

// same fails unless a read has the same outcome on the log and on a snapshot.
func same(e *env, doing string, read func(mainstem.Reader) ([]mainstem.Record, error), s mainstem.Reader) {
	e.Helper()
	want, wantErr := read(e.log)
	got, err := read(s)
	if (err == nil) != (wantErr == nil) || err != nil && mainstem.KindOf(err) != mainstem.KindOf(wantErr) {
		e.Fatalf("%s of a snapshot: %v, of the log: %v", doing, err, wantErr)
	}
	if err == nil {
		e.same(doing+" of a snapshot", fulls(got), fulls(want)...)
	}
}

func checkCounts(e *env) {
	e.seeded()
	e.commit(muchWork)
	var want mainstem.CheckStats
	for in, err := range e.log.Spaces(e.ctx, "") {
		if err != nil {
			e.Fatalf("spaces: %v", err)
		}
		want.Spaces++
		want.Keys += in.Keys
		want.Records += in.Records
	}
	got, err := e.log.(mainstem.Checker).Check(e.ctx, func(p mainstem.Problem) { e.Errorf("problem at %s: %s", p.Where, p.What) })
	if err != nil {
		e.Fatalf("check: %v", err)
	}
	if got.Spaces != want.Spaces || got.Keys != want.Keys || got.Records != want.Records || got.Bytes <= 0 {
		e.Fatalf("check walked %+v, the spaces hold %+v", got, want)
	}
}

func backupAndRestore(e *env) {
	e.seeded()
	b := mainstem.NewBatch()
	b.ID = "before"
	muchWork(b)
	first, err := e.attempt(b)
	if err != nil {
		e.Fatalf("commit: %v", err)
	}
	var tar bytes.Buffer
	want := e.dump(e.log)
	if err := e.log.(mainstem.Backuper).Backup(e.ctx, &tar); err != nil {
		e.Fatalf("backup: %v", err)
	}
	e.put("s", "after the backup", "v")
	original := e.log
	e.log = e.restore(&tar)
	defer original.Close()
	e.unchanged(want, "restored")
	e.again(b, first)
	r := e.put("s", "live", "on the copy")
	if r.First <= first.Last || r.Versions[0] != 3 {
		e.Fatalf("the copy goes on with %+v after %+v", r, first)
	}
	if got, err := original.Get(e.ctx, "s", []byte("live")); err != nil || string(got.Value) != "x" {
		e.Fatalf("writing to the copy changed the original: %s, %v", brief(got), err)
	}
}

func backupWhileWriting(e *env) {
	e.space("s", mainstem.Policy{})
	var tar bytes.Buffer
	acknowledged, atBackup := make(chan int, 1<<12), 0
	e.parallel(2, func(i int) error {
		if i == 0 {
			defer close(acknowledged)
			for n := range busy() {
				b := mainstem.NewBatch()
				b.Put("s", []byte("a"), fmt.Append(nil, n))
				b.Put("s", []byte("b"), fmt.Append(nil, n))
				if _, err := e.attempt(b); err != nil {
					return err
				}
				acknowledged <- n
			}
			return nil
		}
		for range busy() / 3 {
			atBackup = <-acknowledged + 1
		}
		return e.log.(mainstem.Backuper).Backup(e.ctx, &tar)
	})
	original := e.log
	e.log = e.restore(&tar)
	defer original.Close()
	got := e.feed(mainstem.Filter{})
	if len(got)%2 != 0 || len(got)/2 < atBackup {
		e.Fatalf("the backup holds %d records of batches of 2; %d batches were acknowledged before it", len(got), atBackup)
	}
	whole, err := collect(original.Feed(e.ctx, mainstem.Filter{}))
	if err != nil {
		e.Fatalf("feed: %v", err)
	}
	e.same("the backup", fulls(got), fulls(whole[:len(got)])...)
}
