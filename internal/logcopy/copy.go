package logcopy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Copy is one run of a copy from one log to another. Use it once.
type Copy struct {
	from, to mainstem.Log
	o        Options
	report   Report
	w        writer

	read     mainstem.Reader   // the snapshot, or from
	snapshot mainstem.Snapshot // nil if the source offers none
	upTo     mainstem.Position // the run copies everything up to here
	spaces   []*space          // by name
	found    *space            // the last one that find returned
	heads    []keyHead         // of keys that may hold no record

	changesNothing bool // it only compares

	began    time.Time
	start    mainstem.Position // where the run began to copy
	total    int64             // records of the source
	reported time.Time
}

// keyHead is the newest version of a key at the source.
type keyHead struct {
	sp      *space
	key     []byte
	version mainstem.Version
}

// New returns a copy of from into to. It opens nothing: both logs stay the caller's.
func New(from, to mainstem.Log, o *Options) (*Copy, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Copy{from: from, to: to, o: opts}
	c.w = writer{to: to, o: &c.o, report: &c.report, batch: 1, onDone: c.progress}
	return c, nil
}

// rounds bounds how often a run follows a source without snapshots that is written
// while it is copied.
const rounds = 8

// Run copies, repairs and compares. The report is valid also with an error: the
// notes in the target say where the next run goes on. An error of the kind Exists
// refuses source and target as they are. Differences that are left make no error: see
// [Report.Err].
func (c *Copy) Run(ctx context.Context) (Report, error) {
	err := c.run(ctx)
	c.report.Position = c.w.notes.Position
	return c.report, errors.Join(err, c.release())
}

// Verify compares source and target and changes nothing.
func (c *Copy) Verify(ctx context.Context) (Report, error) {
	err := c.verifyOnly(ctx)
	return c.report, errors.Join(err, c.release())
}

func (c *Copy) run(ctx context.Context) error {
	if err := c.compareClocks(ctx); err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.copyAll(ctx); err != nil {
		return err
	}
	if err := c.compare(ctx, true); err != nil {
		return err
	}
	if err := c.copyPolicies(ctx); err != nil {
		return err
	}
	return c.finish(ctx)
}

// finish makes everything durable and looks how far the source has come.
func (c *Copy) finish(ctx context.Context) (err error) {
	b := mainstem.NewBatch()
	b.Time, b.Durability = c.w.clock, mainstem.Fsync
	if _, err := c.w.commit(ctx, b, c.upTo); err != nil {
		return err
	}
	c.report.Head, err = c.from.Head(ctx)
	return err
}

// open lists the spaces of the source and takes a snapshot that shows the same.
func (c *Copy) open(ctx context.Context) error {
	c.began = c.o.Now()
	c.w.synced = c.began
	for range rounds {
		list, err := c.look(ctx)
		if err != nil {
			return err
		}
		again, err := listSpaces(ctx, c.from, c.o.Prefix)
		if err != nil {
			return err
		}
		if sameSpaces(list, again) {
			return nil
		}
		if err := c.release(); err != nil {
			return err
		}
	}
	return mainstem.Errorf(mainstem.KindUnavailable, "copy", "spaces of the source are created, altered or dropped all the time").
		WithHint("try again when it is quieter")
}

// look does the work of open, if no space comes, goes or changes meanwhile.
func (c *Copy) look(ctx context.Context) ([]mainstem.SpaceInfo, error) {
	list, err := listSpaces(ctx, c.from, c.o.Prefix)
	if err != nil {
		return nil, err
	}
	c.spaces, c.found, c.total, c.heads = nil, nil, 0, nil
	for i, info := range list {
		c.spaces = append(c.spaces, &space{info: info, index: uint32(i)})
		c.total += info.Records
	}
	// Before the snapshot: the versions may be too low then, which the next run puts right, but
	// never too high.
	if err := c.knownHeads(ctx); err != nil {
		return nil, err
	}
	c.read = c.from
	if s, ok := c.from.(mainstem.Snapshotter); ok {
		snapshot, err := s.Snapshot(ctx)
		switch {
		case err == nil:
			c.read, c.snapshot = snapshot, snapshot
		case !errors.Is(err, mainstem.ErrUnsupported):
			return nil, err
		}
	}
	c.upTo, err = c.read.Head(ctx)
	return list, err
}

// knownHeads asks for the newest versions of the keys that the options name.
func (c *Copy) knownHeads(ctx context.Context) error {
	if c.o.Keys == nil {
		return nil
	}
	for _, sp := range c.spaces {
		keys, err := c.o.Keys(ctx, c.from, sp.info)
		if err != nil {
			return err
		}
		for _, key := range keys {
			v, err := probe(ctx, c.from, sp.info.Name, key)
			if err != nil {
				return fmt.Errorf("ask the source for the newest version of a key: %w", err)
			}
			if v > 0 {
				c.heads = append(c.heads, keyHead{sp, slices.Clone(key), v})
			}
		}
	}
	return nil
}

// release gives back the snapshot.
func (c *Copy) release() error {
	if c.snapshot == nil {
		return nil
	}
	err := c.snapshot.Close()
	c.snapshot = nil
	return err
}

// copyAll copies what is new, up to upTo; from a source without snapshots as often as
// it moves on, within bounds.
func (c *Copy) copyAll(ctx context.Context) error {
	c.start = c.w.notes.Position
	c.w.cursor = c.start
	for n := 0; ; n++ {
		for c.w.cursor < c.upTo {
			if err := c.pass(ctx); err != nil {
				return err
			}
		}
		if c.snapshot != nil || n == rounds {
			return nil
		}
		head, err := c.from.Head(ctx)
		if err != nil || head <= c.upTo {
			return err
		}
		c.upTo = head
	}
}

// pass copies the records after the cursor in the order of the log: those in the feed,
// and in between those of spaces without one, as many as are held in memory at once.
func (c *Copy) pass(ctx context.Context) error {
	c.foresee()
	quiet, bound, err := c.quiet(ctx)
	if err != nil {
		return err
	}
	before := func(p mainstem.Position) error {
		for len(quiet) > 0 && quiet[0].Position < p {
			if err := c.add(ctx, &quiet[0]); err != nil {
				return err
			}
			quiet = quiet[1:]
		}
		return nil
	}
	for rec, err := range c.read.Feed(ctx, mainstem.Filter{Spaces: c.names(), After: c.w.cursor}) {
		if err != nil {
			return err
		}
		if rec.Position > bound {
			break
		}
		if err := before(rec.Position); err != nil {
			return err
		}
		if err := c.add(ctx, &rec); err != nil {
			return err
		}
	}
	if err := before(bound + 1); err != nil {
		return err
	}
	if err := c.w.flush(ctx); err != nil {
		return err
	}
	c.w.cursor = bound
	return nil
}

func (c *Copy) add(ctx context.Context, r *mainstem.Record) error {
	sp := c.find(r.Space)
	if sp == nil {
		return &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "copy", Space: r.Space, Err: errors.New("the space was created while the copy ran"),
			Hint: "run the copy again",
		}
	}
	return c.w.add(ctx, sp, r)
}

// quiet returns records of spaces without feed after the cursor in the order of the
// log, and up to where they are complete.
func (c *Copy) quiet(ctx context.Context) (out []mainstem.Record, bound mainstem.Position, err error) {
	held := 0
	bound = c.upTo
	trim := func() { // keep the first of them, as many as fit
		slices.SortFunc(out, func(a, b mainstem.Record) int { return int(int64(a.Position) - int64(b.Position)) })
		n, kept := 0, 0
		for n < len(out) && (n == 0 || kept <= c.o.QuietBytes) {
			kept += quietSize(&out[n])
			n++
		}
		if n < len(out) {
			bound = out[n-1].Position
			clear(out[n:])
			out = out[:n]
		}
		held = kept
	}
	take := func(r *mainstem.Record) {
		if r.Position <= c.w.cursor || r.Position > bound {
			return
		}
		out = append(out, r.Clone())
		if held += quietSize(r); held > 2*c.o.QuietBytes {
			trim()
		}
	}
	for _, sp := range c.spaces {
		if sp.info.Policy.NoFeed {
			if err := c.quietSpace(ctx, sp, take); err != nil {
				return nil, 0, err
			}
		}
	}
	trim()
	return out, bound, nil
}

// quietOverhead is about what a record takes besides its bytes.
const quietOverhead = 256

func quietSize(r *mainstem.Record) int { return int(recordSize(r)) + quietOverhead }

// quietSpace calls take for every record of a space without feed.
func (c *Copy) quietSpace(ctx context.Context, sp *space, take func(*mainstem.Record)) error {
	name := sp.info.Name
	for rec, err := range c.read.Scan(ctx, name, mainstem.Range{Tombstones: true}) {
		if err != nil {
			return err
		}
		take(&rec)
		if sp.info.Policy.History == 1 || rec.First() == 1 {
			continue
		}
		newest := rec.Version
		for older, err := range c.read.Read(ctx, name, rec.Key, mainstem.Versions{To: newest - 1}) {
			if err != nil {
				return err
			}
			if older.Version < newest {
				take(&older)
			}
		}
	}
	return nil
}

// How long a record must have to live to be copied in its place.
const (
	leastLife  = time.Second
	mostLife   = time.Hour
	guessedFor = 30 * time.Microsecond // for one record, as long as nothing is measured
)

// foresee estimates how long the copy will take: records that expire before would do
// so in the target, in the middle of the records of the source.
func (c *Copy) foresee() {
	now := c.o.Now()
	left := time.Duration(min(c.total, int64(c.upTo-c.start))) * guessedFor
	if share := c.share(); share > 0.02 {
		left = time.Duration(float64(now.Sub(c.began)) * (1 - share) / share)
	}
	c.w.soon = now.Add(min(max(2*left, leastLife), mostLife))
}

// share returns how much of the positions that the run is to copy it has.
func (c *Copy) share() float64 {
	if c.upTo <= c.start {
		return 1
	}
	return float64(c.w.notes.Position-c.start) / float64(c.upTo-c.start)
}

// progressEvery is the time between two reports of progress.
const progressEvery = 100 * time.Millisecond

// progress reports how far the copying has come.
func (c *Copy) progress() {
	now := c.o.Now()
	if now.Sub(c.reported) < progressEvery {
		return
	}
	c.reported = now
	c.foresee()
	c.o.OnProgress(Progress{Phase: Copying, Records: c.report.Records, Bytes: c.report.Bytes, Share: c.share()})
}
