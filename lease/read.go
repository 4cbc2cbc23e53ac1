package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// Present is a member as [Read] returns it.
type Present struct {
	Member
	TTL     time.Duration // other members remove it when it was silent for this time
	Renewed time.Time     // when it last renewed its session, or joined, by the clock of the log
}

// Read returns the members of a cluster in the order of their names, and the valid leases in the
// order of their keys. bucket is the name of the cluster's bucket; "" stands for [DefaultBucket].
// Read does not join the cluster. A member that has crashed is returned until another member
// removes it: compare Renewed and TTL. A bucket that does not exist has no members.
func Read(ctx context.Context, log mainstem.Log, bucket string) ([]Present, []Held, error) {
	b, err := kv.Open[record](log, cmp.Or(bucket, DefaultBucket), &kv.Options{Codec: codec.JSON})
	if err != nil {
		return nil, nil, err
	}
	members, beats := map[string]*Present{}, map[string]time.Time{}
	var held []Held
	for e, err := range b.List(ctx, nil) {
		kind, name := split(e.Key)
		switch {
		case errors.Is(err, mainstem.ErrCorrupt) && e.Key != "":
			continue // as Keeper does
		case err != nil:
			return nil, nil, err
		case kind == memberPrefix:
			members[name] = &Present{
				Member: Member{Name: name, Start: e.Value.Start, Address: e.Value.Address, Epoch: uint64(e.Revision)},
				TTL:    e.Value.ttl(), Renewed: e.Modified,
			}
		case kind == beatPrefix:
			beats[name] = e.Modified
		case kind == leasePrefix:
			held = append(held, Held{Key: name, Node: e.Value.Node, Value: e.Value.Value, Epoch: uint64(e.Revision), Session: e.Value.Session})
		}
	}
	held = slices.DeleteFunc(held, func(h Held) bool {
		m := members[h.Node]
		return m == nil || m.Epoch != h.Session // it has ended with its session and is not deleted yet
	})
	var out []Present
	for name, m := range members {
		if at := beats[name]; at.After(m.Renewed) {
			m.Renewed = at
		}
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Present) int { return cmp.Compare(a.Name, b.Name) })
	return out, held, nil
}
