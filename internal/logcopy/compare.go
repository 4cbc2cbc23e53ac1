package logcopy

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
)

// comparison is one pass over both sides. Two feeds are read side by side, then the
// keys of every space: where something differs, the whole key is looked at, and
// repaired if that is allowed.
type comparison struct {
	*Copy
	repair bool
	moved  map[string]bool // records that stand at the end: see movedKey
	soon   time.Time       // what expires before may be gone on one side only
	held   map[string]bool // spaces that both sides have

	compared  map[string]bool // keys that were looked at as a whole
	repaired  int64
	different int64
	list      []Difference
	moving    int64
	verified  struct{ Spaces, Keys, Records, Bytes int64 }
	shown     time.Time
}

// passes bounds how often is repaired and compared again.
const passes = 4

// compare compares the two sides, after repairs once more, and reports what is left.
func (c *Copy) compare(ctx context.Context, repair bool) error {
	for n := 1; ; n++ {
		moved, err := loadMoved(ctx, c.to)
		if err != nil {
			return err
		}
		p := comparison{Copy: c, repair: repair && n < passes, moved: moved, compared: map[string]bool{}, soon: c.o.Now().Add(leastLife)}
		if err := p.run(ctx); err != nil {
			return err
		}
		c.report.Repaired += p.repaired
		if p.repaired > 0 {
			continue
		}
		c.report.Verified, c.report.Moving = p.verified, p.moving
		c.report.Differences, c.report.Different = p.list, p.different
		return nil
	}
}

// verifyOnly is Verify.
func (c *Copy) verifyOnly(ctx context.Context) error {
	c.changesNothing = true
	err := c.w.loadNotes(ctx)
	switch {
	case err == nil:
		c.report.Resumed = true
		if c.o.Prefix == "" {
			c.o.Prefix = c.w.notes.Prefix
		}
	case !errors.Is(err, mainstem.ErrNotFound):
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	c.report.Position = c.upTo
	if err := c.compare(ctx, false); err != nil {
		return err
	}
	c.report.Head, err = c.from.Head(ctx)
	return err
}

func (p *comparison) run(ctx context.Context) error {
	var err error
	if p.held, err = p.spacesHeld(ctx); err != nil {
		return err
	}
	if err := p.feeds(ctx); err != nil {
		return err
	}
	for _, sp := range p.spaces {
		if !p.held[sp.info.Name] {
			continue
		}
		if err := p.keys(ctx, sp); err != nil {
			return err
		}
		p.verified.Spaces++
	}
	return p.versionsGoOn(ctx)
}

// spacesHeld compares the lists of spaces and returns those that both sides have.
func (p *comparison) spacesHeld(ctx context.Context) (map[string]bool, error) {
	list, err := listSpaces(ctx, p.to, p.o.Prefix)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for _, info := range list {
		sp := p.find(info.Name)
		if sp == nil {
			p.differ(info.Name, nil, 0, "the source has no such space")
			continue
		}
		held[info.Name] = true
		want := sp.work // it gets that of the source in the end
		if p.changesNothing {
			want = sp.info.Policy
		}
		if !want.Equal(info.Policy) {
			p.differ(info.Name, nil, 0, "the policies differ")
		}
	}
	for _, sp := range p.spaces {
		if !held[sp.info.Name] {
			p.differ(sp.info.Name, nil, 0, "the target has no such space")
		}
	}
	return held, nil
}

func (p *comparison) differ(space string, key []byte, v mainstem.Version, what string) {
	p.different++
	if len(p.list) < MaxDifferences {
		p.list = append(p.list, Difference{Space: space, Key: append([]byte(nil), key...), Version: v, What: what})
		if key == nil {
			p.list[len(p.list)-1].Key = nil
		}
	}
}

// cursor walks a sequence of records one step at a time.
type cursor struct {
	next func() (mainstem.Record, error, bool)
	stop func()
	rec  mainstem.Record // until the next step
	ok   bool
}

func walk(seq iter.Seq2[mainstem.Record, error]) *cursor {
	c := &cursor{}
	c.next, c.stop = iter.Pull2(seq)
	return c
}

// step moves to the next record that skip does not leave out.
func (c *cursor) step(skip func(*mainstem.Record) bool) (err error) {
	for {
		c.rec, err, c.ok = c.next()
		if err != nil || !c.ok || !skip(&c.rec) {
			return err
		}
	}
}

// feeds compares the feeds of both sides: they show the same records in one order.
func (p *comparison) feeds(ctx context.Context) error {
	s := walk(p.read.Feed(ctx, mainstem.Filter{Spaces: p.names()}))
	defer s.stop()
	t := walk(p.to.Feed(ctx, mainstem.Filter{Spaces: p.names()}))
	defer t.stop()
	source := func(r *mainstem.Record) bool { return p.passes(r) || r.Position > p.upTo }
	if err := errors.Join(s.step(source), t.step(p.passes)); err != nil {
		return err
	}
	for s.ok || t.ok {
		inS, inT, err := p.align(ctx, s, t)
		if err != nil {
			return err
		}
		if inS && inT {
			p.count(&s.rec)
		}
		if inS || s.ok && source(&s.rec) {
			err = s.step(source)
		}
		if inT || t.ok && p.passes(&t.rec) {
			err = errors.Join(err, t.step(p.passes))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// align decides what becomes of the next records of two feeds. Both are done with
// if they are the same; one that tells of an expiry alone, for each engine writes those
// when it likes; otherwise the keys are compared as a whole, after which their records are left out.
func (p *comparison) align(ctx context.Context, s, t *cursor) (doneS, doneT bool, err error) {
	if s.ok && t.ok && sameRecord(&s.rec, &t.rec) {
		if what, _ := unlike(&s.rec, &t.rec, p.w.notes.Later > 0); what == "" {
			return true, true, nil
		}
	}
	if doneS, err = p.nothingToEnd(ctx, s); err != nil {
		return false, false, err
	}
	doneS = doneS || s.ok && s.rec.Tombstone == mainstem.Expired
	doneT = t.ok && t.rec.Tombstone == mainstem.Expired
	if doneS || doneT {
		return doneS, doneT, nil
	}
	return false, false, p.compareKeys(ctx, s, t)
}

func sameRecord(s, t *mainstem.Record) bool {
	return s.Version == t.Version && s.Space == t.Space && string(s.Key) == string(t.Key)
}

// passes reports whether the order of a record is not compared: it ends about now,
// stands at the end of the target, or is of a key that was looked at as a whole.
func (p *comparison) passes(r *mainstem.Record) bool {
	if p.ends(r) {
		return true
	}
	if len(p.compared) > 0 && p.compared[keyOf(r.Space, r.Key)] {
		return true
	}
	if !p.held[r.Space] {
		return true // only one side has the space: that is a difference of its own
	}
	return len(p.moved) > 0 && p.moved[string(movedKey(r.Space, r.Key, r.Version))]
}

// ends reports whether a record has expired by now, or will in a moment.
func (p *comparison) ends(r *mainstem.Record) bool {
	if !r.Expires.IsZero() && !r.Expires.After(p.soon) {
		return true
	}
	sp := p.find(r.Space)
	return sp != nil && sp.info.Policy.MaxAge > 0 && !r.Time.Add(sp.info.Policy.MaxAge).After(p.soon)
}

// nothingToEnd reports whether a record of the source is a tombstone that the target cannot
// have: what it ended was too old for its space, and is gone there with its key.
func (p *comparison) nothingToEnd(ctx context.Context, s *cursor) (bool, error) {
	if !s.ok || s.rec.Live() {
		return false, nil
	}
	return p.agedOut(ctx, &s.rec)
}

// agedOut reports whether the target, which removes what is too old, has had what comes
// before a record of the source, and holds nothing of the key any more.
func (p *comparison) agedOut(ctx context.Context, r *mainstem.Record) (bool, error) {
	sp := p.find(r.Space)
	if sp == nil || sp.info.Policy.MaxAge == 0 {
		return false, nil
	}
	newest, err := probe(ctx, p.to, r.Space, r.Key)
	if err != nil || newest == 0 || newest < r.First()-1 {
		return false, err
	}
	for _, err := range p.to.Read(ctx, r.Space, r.Key, mainstem.Versions{Limit: 1}) {
		if err != nil && mainstem.KindOf(err) != mainstem.KindNotFound {
			return false, err
		}
		return err != nil, nil
	}
	return true, nil
}

// mayBeLater reports whether a record may have a later time in the target.
func (p *comparison) mayBeLater(r *mainstem.Record) bool {
	return p.w.notes.Later > 0 || len(p.moved) > 0 && p.moved[string(movedKey(r.Space, r.Key, r.Version))]
}

func keyOf(space string, key []byte) string { return space + "\x00" + string(key) }

// compareKeys looks at the keys of two records that should be the same one.
func (p *comparison) compareKeys(ctx context.Context, s, t *cursor) error {
	found := p.different + p.repaired + p.moving
	var space string
	var key []byte
	for _, c := range []*cursor{s, t} {
		if !c.ok || p.compared[keyOf(c.rec.Space, c.rec.Key)] {
			continue
		}
		space, key = c.rec.Space, append([]byte{}, c.rec.Key...)
		p.compared[keyOf(space, key)] = true
		if err := p.key(ctx, p.find(space), key); err != nil {
			return err
		}
	}
	if found == p.different+p.repaired+p.moving {
		p.differ(space, key, 0, "its records are the same, but stand in another order among those of other keys")
	}
	return nil
}

func (p *comparison) count(r *mainstem.Record) {
	p.verified.Records++
	p.verified.Bytes += recordSize(r)
	if p.verified.Records%1024 != 0 {
		return
	}
	if now := p.o.Now(); now.Sub(p.shown) >= progressEvery {
		p.shown = now
		share := 0.0
		if p.total > 0 {
			share = min(float64(p.verified.Records)/float64(p.total), 1)
		}
		p.o.OnProgress(Progress{Phase: Comparing, Records: p.verified.Records, Bytes: p.verified.Bytes, Share: share})
	}
}
