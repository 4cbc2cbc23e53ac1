package feedtopic

import (
	"context"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// Record is a record of a topic as clients get it.
type Record struct {
	Place
	Key     string
	Value   []byte // nil is null
	Headers []Header
}

// Place is where and when a record is.
type Place struct {
	Position mainstem.Position // its offset
	Time     time.Time
}

// Header is a header of a record.
type Header struct{ Name, Value string }

// View is what a topic shows. Its methods may be called from many goroutines.
type View interface {
	// Space returns the space whose records are shown, and KeyPrefix how the keys of
	// those begin that are.
	Space() string
	KeyPrefix() []byte

	// Last returns the position of the newest record ever committed to the space, shown or
	// not; 0 if there was none.
	Last(ctx context.Context) (mainstem.Position, error)
	// Revived returns a position that changes when records that were not shown may be
	// shown again.
	Revived(ctx context.Context) (mainstem.Position, error)

	// Records yields what is shown after a position, in the order of the log. A record
	// is lent until the loop body returns.
	Records(ctx context.Context, after mainstem.Position) iter.Seq2[*Record, error]
	// Places yields where those records are; at most limit of them unless it is 0.
	Places(ctx context.Context, after mainstem.Position, limit int) iter.Seq2[Place, error]
}

func closed() error {
	return mainstem.Errorf(mainstem.KindClosed, "topic", "the server is shutting down")
}

func (t *Topic) check(partition int32) error {
	if partition != 0 {
		return mainstem.Errorf(mainstem.KindNotFound, "topic", "no partition %d: %s has only partition 0", partition, t.name)
	}
	return nil
}

// The version in an ID: RFC 9562 reserves 8 for IDs that are computed as the
// application likes. The topics of a catalog have random IDs, of version 4.
const idVersion = 0x80

// ComputedID makes 16 bytes of a hash the ID of a topic.
func ComputedID(hash [16]byte) topic.ID {
	id := topic.ID(hash)
	id[6] = id[6]&0x0f | idVersion
	id[8] = id[8]&0x3f | 0x80
	return id
}

// IsID reports whether id may be one that was computed.
func IsID(id topic.ID) bool { return id[6]&0xf0 == idVersion && id[8]&0xc0 == 0x80 }
