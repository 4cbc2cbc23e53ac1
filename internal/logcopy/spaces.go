package logcopy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// space is a space that is copied.
type space struct {
	info  mainstem.SpaceInfo // at the source
	index uint32
	work  mainstem.Policy // what the target has at the moment; see workPolicy
}

// listSpaces returns the spaces of log with a prefix, but for the one that belongs to copies.
func listSpaces(ctx context.Context, log mainstem.SpaceManager, prefix string) ([]mainstem.SpaceInfo, error) {
	var out []mainstem.SpaceInfo
	for info, err := range log.Spaces(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if info.Name != Space {
			out = append(out, info)
		}
	}
	return out, nil
}

// sameSpaces reports whether two lists name the same spaces, none created anew.
func sameSpaces(a, b []mainstem.SpaceInfo) bool {
	return slices.EqualFunc(a, b, func(x, y mainstem.SpaceInfo) bool {
		return x.Name == y.Name && x.Created.Equal(y.Created) && x.Policy.Equal(y.Policy)
	})
}

// begin prepares an empty target, or finds out where the copy in it stands.
func (c *Copy) begin(ctx context.Context) error {
	err := c.w.loadNotes(ctx)
	if errors.Is(err, mainstem.ErrNotFound) {
		return c.beginAnew(ctx)
	}
	if err != nil {
		return err
	}
	c.report.Resumed = true
	if err := c.sameSource(ctx); err != nil {
		return err
	}
	if err := c.onlyOurs(ctx); err != nil {
		return err
	}
	return c.matchSpaces(ctx)
}

// beginAnew makes the notes and the spaces in a target that must be empty.
func (c *Copy) beginAnew(ctx context.Context) error {
	held, err := listSpaces(ctx, c.to, "")
	if err != nil {
		return err
	}
	if len(held) > 0 {
		return mainstem.Refusef(mainstem.KindExists, "copy", "the target holds data already: %d spaces, the first is %s", len(held), held[0].Name).
			WithHint("name a new, empty target")
	}
	c.w.fresh = c.snapshot != nil
	c.w.notes = notes{Format: notesFormat, Source: identity(c.from), Prefix: c.o.Prefix}
	if err := c.firstBatch(ctx); err != nil {
		return err
	}
	err = c.matchSpaces(ctx)
	if err != nil && ctx.Err() == nil { // nothing is copied yet: leave the target as it was
		for _, sp := range c.spaces {
			_ = c.to.DropSpace(ctx, sp.info.Name)
		}
		_ = c.to.DropSpace(ctx, Space)
	}
	return err
}

// firstBatch writes the notes, at a time before every record of the source.
func (c *Copy) firstBatch(ctx context.Context) error {
	b := mainstem.NewBatch()
	b.Time, b.Durability = beginning, mainstem.Fsync
	b.Ensure(Space, spacePolicy)
	r, err := c.w.commit(ctx, b, 0)
	if err != nil {
		return err
	}
	c.w.clock = beginning
	if len(r.Versions) == 0 || r.Time.Equal(beginning) {
		return nil
	}
	_ = c.to.DropSpace(ctx, Space)
	return mainstem.Refusef(mainstem.KindUnsupported, "copy", "the target gave the first batch the time %s instead of %s: records cannot keep their times in it", r.Time.UTC().Format(time.RFC3339Nano), beginning.UTC().Format(time.RFC3339)).
		WithHint("a target must be new, or a server of this version or newer")
}

// sameSource refuses a source that is not the one the copy was begun from.
func (c *Copy) sameSource(ctx context.Context) error {
	refuse := func(format string, args ...any) error {
		return mainstem.Refusef(mainstem.KindExists, "copy", format, args...).
			WithHint("go on with the source and prefix that it was begun with, or name a new, empty target")
	}
	n := &c.w.notes
	if n.Prefix != c.o.Prefix {
		return refuse("the target holds a copy of the spaces with the prefix %q, not %q", n.Prefix, c.o.Prefix)
	}
	id := identity(c.from)
	if id != "" && n.Source != "" && id != n.Source {
		return refuse("the target holds a copy of another log: of %s, not of %s", n.Source, id)
	}
	if id == "" || n.Source == "" {
		known, err := c.w.loadSpaceNotes(ctx)
		if err != nil {
			return err
		}
		same := len(known) == 0
		for _, sp := range c.spaces {
			at, ok := known[sp.info.Name]
			same = same || ok && at.Equal(sp.info.Created)
		}
		if !same {
			return refuse("the target holds a copy of another log: none of its %d spaces is one of the source", len(known))
		}
	}
	if n.Position > c.upTo {
		return refuse("the target holds a copy up to position %d, and the source ends at %d: it is another log, or an older state of it", n.Position, c.upTo)
	}
	return nil
}

// onlyOurs refuses a target that others have written to since the last batch of the copy.
func (c *Copy) onlyOurs(ctx context.Context) error {
	refuse := func(space string, key []byte, at mainstem.Position) error {
		return &mainstem.Error{
			Kind: mainstem.KindExists, Op: "copy", Space: space, Key: slices.Clone(key), Outcome: mainstem.NotWritten,
			Err:  fmt.Errorf("others have written to the target since it was copied into, at position %d", at),
			Hint: "it has a life of its own now; to copy anew, name a new, empty target",
		}
	}
	for rec, err := range c.to.Feed(ctx, mainstem.Filter{After: c.w.own}) {
		if err != nil {
			return err
		}
		if rec.Tombstone != mainstem.Expired { // those are the engine's own
			return refuse(rec.Space, rec.Key, rec.Position)
		}
		c.w.clock = rec.Time
	}
	held, err := listSpaces(ctx, c.to, "")
	if err != nil {
		return err
	}
	for _, info := range held {
		if info.Policy.NoFeed && info.Last > c.w.own {
			return refuse(info.Name, nil, info.Last)
		}
	}
	return nil
}

// matchSpaces creates, alters and drops spaces of the target until they are those of
// the source.
func (c *Copy) matchSpaces(ctx context.Context) error {
	known, err := c.w.loadSpaceNotes(ctx)
	if err != nil {
		return err
	}
	list, err := listSpaces(ctx, c.to, "")
	if err != nil {
		return err
	}
	held := map[string]mainstem.Policy{}
	for _, info := range list {
		held[info.Name] = info.Policy
	}
	for _, sp := range c.spaces {
		at, noted := known[sp.info.Name]
		p, there := held[sp.info.Name]
		delete(known, sp.info.Name)
		if noted && !at.Equal(sp.info.Created) {
			if err := c.dropSpace(ctx, sp.info.Name); err != nil { // an interrupted run may have done so
				return err
			}
			there, noted = false, false
		}
		if !noted {
			if err := c.noteSpace(ctx, sp); err != nil {
				return err
			}
		}
		if sp.work = p; !there {
			if err := c.createSpace(ctx, sp); err != nil {
				return err
			}
		}
		if err := c.w.alter(ctx, sp, c.workPolicy(sp)); err != nil {
			return err
		}
	}
	for name := range known {
		if _, there := held[name]; there {
			if err := c.dropSpace(ctx, name); err != nil {
				return err
			}
		}
		if err := c.forgetNote(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// createSpace creates sp in the target, if it can with the time of creation that
// it has at the source.
func (c *Copy) createSpace(ctx context.Context, sp *space) error {
	b := mainstem.NewBatch()
	b.Time = sp.info.Created
	b.Ensure(sp.info.Name, sp.info.Policy)
	sp.work = sp.info.Policy
	c.report.Spaces++
	_, err := c.w.attempt(ctx, b)
	var e *mainstem.Error
	if errors.As(err, &e) && (e.Kind == mainstem.KindUnsupported || e.Kind == mainstem.KindInvalid) {
		x := *e
		x.Op, x.Space = "copy", sp.info.Name
		x.Err = fmt.Errorf("the target does not take the space's policy: %w", err)
		return &x
	}
	return err
}

func (c *Copy) dropSpace(ctx context.Context, name string) error {
	err := c.to.DropSpace(ctx, name)
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	c.report.Dropped++
	return err
}

// noteSpace remembers which space of the source sp is.
func (c *Copy) noteSpace(ctx context.Context, sp *space) error {
	b := mainstem.NewBatch()
	b.Time = c.w.clock
	b.Put(Space, []byte(spacePrefix+sp.info.Name), encode(spaceNote{sp.info.Created}))
	_, err := c.w.commit(ctx, b, c.w.notes.Position)
	return err
}

func (c *Copy) forgetNote(ctx context.Context, name string) error {
	b := mainstem.NewBatch()
	b.Time = c.w.clock
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: Space, Key: []byte(spacePrefix + name)})
	_, err := c.w.commit(ctx, b, c.w.notes.Position)
	return err
}

// alter gives the space of the target another policy, after what is pending.
func (w *writer) alter(ctx context.Context, sp *space, p mainstem.Policy) error {
	if p.Equal(sp.work) {
		return nil
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if err := w.to.AlterSpace(ctx, sp.info.Name, p); err != nil {
		return err
	}
	sp.work = p
	return nil
}

// workPolicy returns the policy of a space while it is copied into. Nothing may go
// because of its size. In a copy brought up to date, a record that the source has
// removed still counts among the newest of its key until the repair: it must not
// supersede one that the source holds.
func (c *Copy) workPolicy(sp *space) mainstem.Policy {
	p := sp.info.Policy
	p.MaxBytes = 0
	if c.report.Resumed && p.History > 0 {
		p.History = mainstem.MaxHistory
	}
	return p
}

// copyPolicies gives every space of the target the policy that it has at the
// source. While records are copied it may be another one.
func (c *Copy) copyPolicies(ctx context.Context) error {
	for _, sp := range c.spaces {
		if err := c.w.alter(ctx, sp, sp.info.Policy); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names of the spaces copied for a filter: nil, all of them, unless
// there is a prefix.
func (c *Copy) names() []string {
	if c.o.Prefix == "" {
		return nil
	}
	out := make([]string, 0, len(c.spaces))
	for _, sp := range c.spaces {
		out = append(out, sp.info.Name)
	}
	return out
}

// find returns the space called name, nil if it is not copied.
func (c *Copy) find(name string) *space {
	if c.found != nil && c.found.info.Name == name {
		return c.found
	}
	i, ok := slices.BinarySearchFunc(c.spaces, name, func(sp *space, name string) int {
		return strings.Compare(sp.info.Name, name)
	})
	if !ok {
		return nil
	}
	c.found = c.spaces[i]
	return c.found
}
