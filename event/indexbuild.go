package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/outcome"
)

// A build enters the present events of a store in its index. Its steps:
//
//	1. The control record says "building", in one commit with the anchor. From that position
//	   on (since), every append writes records of the index: an append by a handle that has not read the
//	   control record is refused. Queries read the feed of the store until the end of the build.
//	2. The built keys of an earlier index are emptied.
//	3. The events up to since are read in order, given their new tags, if there are any, and
//	   entered in the built keys, with absolute positions.
//	4. The records that appends wrote for events up to since are removed: the built keys have them.
//	5. The control record says "ready".
//
// The progress is stored in the build record, on which every commit has a condition. So an
// interrupted build is resumed, and two concurrent builds share the work. Each step may be
// repeated.

// RetagOptions tune [Store.Retag]. Nil and zero fields mean the defaults.
type RetagOptions struct {
	// Index says which keys the index has from now on. Default: unchanged.
	Index *IndexOptions
	// Progress is called after each commit with two positions: all events up to done are entered,
	// and the build ends at last.
	Progress func(done, last mainstem.Position)
}

// OpenIndexed is [Open] for a store with an index. It creates the index, as [Store.CreateIndex]
// does, if there is none yet, and the handle has then read it.
func OpenIndexed(ctx context.Context, log mainstem.Log, name string, o *Options, index *IndexOptions) (*Store, error) {
	s, err := Open(log, name, o)
	if err != nil {
		return nil, err
	}
	return s, s.CreateIndex(ctx, index)
}

// CreateIndex gives the store an index by type and tag: [Store.Query] and feeds by type then read
// only the events that they return, and [Store.FailIf] and [Store.Decide] work. Each append then
// also writes a small record for the type and each tag of an event. CreateIndex enters the present
// events too; that takes as long as reading all of them, while the store may be used. The next call
// resumes an interrupted one.
//
// If the store has an index and o is nil or equal to its options, CreateIndex does nothing; with
// other options the error is Exists: use [Store.Retag] to change an index. While a Retag runs it
// returns at once.
func (s *Store) CreateIndex(ctx context.Context, o *IndexOptions) error {
	want, err := o.withDefaults()
	if err != nil {
		return err
	}
	x, err := s.readIndex(ctx)
	if err != nil {
		return err
	}
	if !x.exists() {
		if x, err = s.beginBuild(ctx, x, want, false); err != nil {
			return err
		}
	}
	switch {
	case o != nil && !x.IndexOptions.equal(&want):
		return mainstem.Refusef(mainstem.KindExists, "create index", "store %s has an index with other options", s.name).
			WithHint("change it with Store.Retag")
	case x.State == stateBuilding && !x.Retag:
		return s.build(ctx, x, nil, nil)
	}
	return nil
}

// Retag builds the index of the store anew, or for the first time, and replaces the tags of the
// present events by the result of tags; if tags is nil the events keep theirs. Only tags are
// changed; positions, versions and data stay. The store may be used meanwhile: queries then read
// the whole store, and events that are appended keep the tags of their append, so give the writers
// their [Options.Tagger] first.
//
// The next call, which must be given the same tags, resumes an interrupted one. tags may be called
// several times for an event, also when the event already has the new tags. Events of archived
// streams are included. If tags returns more tags than the index accepts, or an invalid one, Retag
// fails with Invalid.
func (s *Store) Retag(ctx context.Context, tags func(Recorded) []string, o *RetagOptions) error {
	if o == nil {
		o = &RetagOptions{}
	}
	want, err := o.Index.withDefaults()
	if err != nil {
		return err
	}
	x, err := s.readIndex(ctx)
	if err != nil {
		return err
	}
	if x.exists() && x.State == stateBuilding && !x.Retag { // a build of CreateIndex is running: it ends first
		if err := s.build(ctx, x, nil, o.Progress); err != nil {
			return err
		}
		x = s.index.Load()
	}
	if x.exists() && o.Index == nil {
		want = x.IndexOptions
	}
	if !x.exists() || x.State == stateReady {
		if x, err = s.beginBuild(ctx, x, want, true); err != nil {
			return err
		}
	}
	return s.build(ctx, x, tags, o.Progress)
}

// beginBuild writes the control record of a new build, unless another process was first.
func (s *Store) beginBuild(ctx context.Context, x *index, o IndexOptions, retag bool) (*index, error) {
	for try := 1; ; try++ {
		value, err := control{State: stateBuilding, Retag: retag, IndexOptions: o}.encode(x.Inline)
		if err != nil {
			return nil, err
		}
		b := s.buildBatch()
		s.expectControl(b, x)
		b.Put(s.spaces.tags, controlKey, value)
		b.Put(s.spaces.tags, anchorKey, nil)
		b.Put(s.spaces.tags, buildKey, []byte(`{"step":"clear"}`))
		_, failed := outcome.Commit(ctx, s.log, b)
		if failed != nil && !errors.Is(failed, mainstem.ErrConflict) {
			return nil, failed
		}
		before := x
		if x, err = s.readIndex(ctx); err != nil {
			return nil, err
		}
		if failed != nil && x.State == before.State && x.at == before.at && try < buildTries && afterBuild.Wait(ctx, try) {
			continue // only the inline projections have changed
		}
		if !x.exists() || x.State != stateBuilding && retag {
			return x, mainstem.Refusef(mainstem.KindUnavailable, "index", "the index of store %s was changed by somebody else meanwhile", s.name)
		}
		return x, nil
	}
}

func (s *Store) buildBatch() *mainstem.Batch {
	b := mainstem.NewBatch()
	b.Durability = s.opts.Durability
	b.Ensure(s.spaces.tags, tagsPolicy)
	return b
}

// The steps of a build. They are persisted.
const (
	stepClear = "clear" // step 2
	stepEnter = "enter" // step 3
	stepTrim  = "trim"  // steps 4 and 5
)

// buildState is the value of the build record.
type buildState struct {
	Step     string            `json:"step"`
	Position mainstem.Position `json:"position,omitempty"` // enter: all events up to here are entered
	Anchor   mainstem.Position `json:"anchor,omitempty"`   // position of the anchor; not in step clear

	version mainstem.Version // of the record
}

// builder runs one build.
type builder struct {
	*Store
	x        *index
	tags     func(Recorded) []string
	progress func(done, last mainstem.Position)
	state    buildState
}

// buildTries is how many commits in a row of a build may fail because of another writer.
const buildTries = 100

var afterBuild = backoff.Policy{First: time.Millisecond, Max: 100 * time.Millisecond, Jitter: 1}

// build continues the build of x until the index is ready.
func (s *Store) build(ctx context.Context, x *index, tags func(Recorded) []string, progress func(done, last mainstem.Position)) error {
	bl := &builder{Store: s, x: x, tags: tags, progress: progress}
	for try := 1; ; {
		before := bl.state.version
		done, err := bl.step(ctx)
		switch {
		case done:
			_, err := s.readIndex(ctx)
			return err
		case err == nil:
			try = 1
			continue
		case !errors.Is(err, mainstem.ErrConflict) && !errors.Is(err, mainstem.ErrNotFound):
			return err
		case bl.state.version != before: // another build made progress
			try = 1
		}
		if try == buildTries || !afterBuild.Wait(ctx, try) {
			return err
		}
		try++
	}
}

// step makes one commit of the build, after reading the progress. done is true if the index is
// ready, or if another build has taken over.
func (bl *builder) step(ctx context.Context) (done bool, err error) {
	x, err := bl.readIndex(ctx)
	if err != nil {
		return false, err
	}
	if !x.exists() || x.State != stateBuilding || x.at != bl.x.at {
		return true, nil
	}
	bl.x = x // the inline projections of the store may have changed
	rec, err := bl.log.Get(ctx, bl.spaces.tags, buildKey)
	if err != nil {
		return false, err
	}
	bl.state = buildState{version: rec.Version}
	if err := json.Unmarshal(rec.Value, &bl.state); err != nil {
		return false, mainstem.Errorf(mainstem.KindCorrupt, "decode", "build record: %w", err).At(rec.Space, rec.Key)
	}
	anchor, err := bl.log.Get(ctx, bl.spaces.tags, anchorKey)
	switch {
	case err != nil:
		return false, err
	case bl.state.Step == stepClear:
		bl.state.Anchor = anchor.Position
	case bl.state.Anchor != anchor.Position: // the build record was copied from another log: its positions are wrong
		bl.x, err = bl.beginBuild(ctx, bl.x, bl.x.IndexOptions, bl.x.Retag)
		return false, err
	}
	switch bl.state.Step {
	case stepClear:
		return false, bl.clear(ctx)
	case stepEnter:
		return false, bl.enter(ctx)
	case stepTrim:
		return bl.trim(ctx)
	}
	return false, mainstem.Errorf(mainstem.KindCorrupt, "decode", "build record: step %.40q", bl.state.Step).At(rec.Space, rec.Key)
}

// commit commits b and changes the build record to next, on condition that the record is unchanged
// since it was read.
func (bl *builder) commit(ctx context.Context, b *mainstem.Batch, next buildState) error {
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	bl.expectControl(b, bl.x)
	b.IfVersion(bl.spaces.tags, buildKey, bl.state.version)
	b.Truncate(bl.spaces.tags, buildKey, bl.state.version+1) // only the newest version is needed
	b.Put(bl.spaces.tags, buildKey, value)
	_, err = outcome.Commit(ctx, bl.log, b)
	return err
}

// keysOfCommit is how many keys of the index one commit of a build changes.
const keysOfCommit = 500

// clear empties built keys. If there are none, it starts the next step.
func (bl *builder) clear(ctx context.Context) error {
	b := bl.buildBatch()
	for rec, err := range bl.log.Scan(ctx, bl.spaces.tags, mainstem.Range{Prefix: []byte(builtPrefix), Limit: keysOfCommit, KeysOnly: true}) {
		if err != nil {
			return err
		}
		b.Truncate(bl.spaces.tags, append([]byte(nil), rec.Key...), rec.Version+1)
	}
	if b.Len() > 0 {
		return bl.commit(ctx, b, buildState{Step: stepClear})
	}
	return bl.commit(ctx, b, buildState{Step: stepEnter, Anchor: bl.state.Anchor})
}

// Limits of one commit of a build.
const (
	eventsOfCommit = 256
	bytesOfCommit  = 4 << 20
)

// enter enters the next events in the built keys.
func (bl *builder) enter(ctx context.Context) error {
	head, err := bl.log.Head(ctx)
	if err != nil {
		return err
	}
	b := bl.buildBatch()
	b.IfNotAfter(bl.spaces.tags, rewriteKey, head) // events that are read here must not be rewritten meanwhile
	dec := bl.decoders.Get().(*decoder)
	defer bl.decoders.Put(dec)
	next := buildState{Step: stepEnter, Position: bl.state.Position, Anchor: bl.state.Anchor}
	n, size := 0, 0
	for rec, err := range bl.log.Feed(ctx, mainstem.Filter{Spaces: []string{bl.spaces.events}, After: next.Position, Limit: eventsOfCommit}) {
		if err != nil {
			return err
		}
		if rec.Position > bl.x.at {
			break
		}
		if rec.Live() {
			if err := bl.enterEvent(b, dec, &rec); err != nil {
				return err
			}
		}
		next.Position = rec.Position
		if n, size = n+1, size+len(rec.Value); size >= bytesOfCommit {
			break
		}
	}
	if n == 0 {
		next = buildState{Step: stepTrim, Anchor: bl.state.Anchor}
	}
	if err := bl.commit(ctx, b, next); err != nil {
		return err
	}
	if bl.progress != nil && n > 0 {
		bl.progress(next.Position, bl.x.at)
	}
	return nil
}

// enterEvent adds to b the records of the index for the event in rec, and its new tags.
func (bl *builder) enterEvent(b *mainstem.Batch, dec *decoder, rec *mainstem.Record) error {
	r, err := dec.recorded(rec, string(rec.Key))
	if err != nil {
		return err
	}
	tags := r.Tags
	if bl.tags != nil {
		tags = bl.tags(r.Clone())
		err := checkTags(tags)
		if err == nil && len(tags) > bl.x.MaxTags {
			err = fmt.Errorf("%d tags: the index takes %d", len(tags), bl.x.MaxTags)
		}
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "retag", "version %d of stream %.64q: %w", r.Version, r.Stream, err)
		}
		if strings.Join(tags, tagSeparator) != strings.Join(r.Tags, tagSeparator) {
			own := rec.Clone()
			b.Rewrite(own.Space, own.Key, own.Version, own.Value, withTags(own.Headers, tags))
		}
	}
	bl.x.keysOf(r.Type, tags, func(kind, one, two string) {
		key := appendKey([]byte(builtPrefix), kind, one, two)
		b.Put(bl.spaces.tags, key, appendEntry(nil, entryPosition, uint64(r.Position), rec.Key))
	})
	return nil
}

// withTags returns headers with other tags, in the place where the store puts them.
func withTags(headers mainstem.Headers, tags []string) mainstem.Headers {
	var enc encoder
	enc.tags(tags)
	out := make(mainstem.Headers, 0, len(headers)+1)
	for _, h := range headers {
		if h.Name != headerTags {
			out = append(out, h)
		}
	}
	at := 0
	for at < len(out) && own(out[at].Name) {
		at++
	}
	return append(out[:at:at], append(enc.headers, out[at:]...)...)
}

// trim removes the records that appends wrote for events that are in the built keys, and ends the
// build.
func (bl *builder) trim(ctx context.Context) (done bool, err error) {
	if err := bl.trimKeys(ctx); err != nil {
		return false, err
	}
	value, err := control{State: stateReady, Since: bl.x.at, Anchor: bl.state.Anchor, IndexOptions: bl.x.IndexOptions}.encode(bl.x.Inline)
	if err != nil {
		return false, err
	}
	b := bl.buildBatch()
	b.Put(bl.spaces.tags, controlKey, value)
	err = bl.commit(ctx, b, bl.state)
	return err == nil, err
}

// trimKeys removes the records from before the build from the keys that appends write.
func (bl *builder) trimKeys(ctx context.Context) error {
	b := bl.buildBatch()
	flush := func() error {
		if b.Len() == 0 {
			return nil
		}
		bl.expectControl(b, bl.x)
		_, err := outcome.Commit(ctx, bl.log, b)
		b = bl.buildBatch()
		return err
	}
	for rec, err := range bl.log.Scan(ctx, bl.spaces.tags, mainstem.Range{KeysOnly: true}) {
		if err != nil {
			return err
		}
		if !isEventKey(rec.Key) {
			continue
		}
		before, err := bl.firstSince(ctx, append([]byte(nil), rec.Key...), rec.Version)
		if err != nil {
			return err
		}
		if before > 0 {
			b.Truncate(bl.spaces.tags, append([]byte(nil), rec.Key...), before)
		}
		if b.Len() == keysOfCommit {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// firstSince returns the version of the first record in key that was written after the build began,
// or newest+1 if all are older; 0 if no record is older.
func (bl *builder) firstSince(ctx context.Context, key []byte, newest mainstem.Version) (mainstem.Version, error) {
	k := &keyRead{log: bl.log, space: bl.spaces.tags, key: key, next: 1, end: newest}
	oldest, _, err := k.probe(ctx, 1)
	if err != nil || oldest == 0 {
		return 0, err
	}
	k.next = oldest
	if err := k.skip(ctx, bl.x.at); err != nil {
		return 0, err
	}
	if k.ended {
		return newest + 1, nil
	}
	for rec, err := range bl.log.Read(ctx, k.space, key, k.versions(k.next, 0)) {
		switch {
		case err != nil:
			return 0, err
		case rec.Position <= bl.x.at:
		case rec.Version == oldest:
			return 0, nil
		default:
			return rec.Version, nil
		}
	}
	return newest + 1, nil
}

// isEventKey reports whether key is one of the keys that appends write.
func isEventKey(key []byte) bool {
	s := string(key)
	return strings.HasPrefix(s, tagKey) || strings.HasPrefix(s, typeKey) || strings.HasPrefix(s, pairKey) || s == allKey
}
