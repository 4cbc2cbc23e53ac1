package logcopy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Space is the space of a target that remembers where its copy stands. It is not in
// feeds, and is left out when the target is itself copied. Dropping it ends the copy: nothing
// can be copied into the log after that.
const Space = "mainstem.copy"

// Keys of the space:
//
//	progress        the notes, in JSON; part of every batch of a copy, old ones are truncated
//	space NAME      which space of the source NAME is a copy of, in JSON
//	moved HASH      no value; a record stands at the end although it is older
var (
	progressKey  = []byte("progress")
	spacePrefix  = "space "
	movedPrefix  = "moved "
	spacePolicy  = mainstem.Policy{NoFeed: true} // all history: one record more is the least work for every engine
	beginning    = time.Unix(1, 0)               // of a target: before every record of the source
	notesFormat  = 1
	errNoCopy    = errors.New("the target holds no copy")
	neverVersion = mainstem.Version(1<<63 - 1) // no key has it
)

// notes are the value of the progress key.
type notes struct {
	Format   int               `json:"format"`
	Source   string            `json:"source,omitempty"` // the ID of the source, if it has one
	Prefix   string            `json:"prefix,omitempty"` // see Options.Prefix
	Position mainstem.Position `json:"position"`         // everything up to here is in the target
	Later    int64             `json:"later,omitempty"`  // records that have a later time than at the source
}

// spaceNote is the value of a space key.
type spaceNote struct {
	Created time.Time `json:"created"` // of the source's space: it tells it from another of its name
}

func encode(v any) []byte {
	b, _ := json.Marshal(v) // strings, numbers and a time of this era always encode
	return b
}

// identity returns what tells log from others wherever it is opened, "" if it does not say.
func identity(log mainstem.Log) string {
	if l, ok := log.(interface{ ID() string }); ok {
		return l.ID()
	}
	return ""
}

// loadNotes reads where the copy in the target stands: NotFound if there is none.
func (w *writer) loadNotes(ctx context.Context) error {
	rec, err := w.to.Get(ctx, Space, progressKey)
	if err != nil {
		return err
	}
	var n notes
	if err := json.Unmarshal(rec.Value, &n); err != nil || n.Format != notesFormat {
		return &mainstem.Error{
			Kind: mainstem.KindCorrupt, Op: "copy", Space: Space, Key: progressKey,
			Err: fmt.Errorf("format %d, want %d: %w", n.Format, notesFormat, errors.Join(errNoCopy, err)),
		}
	}
	w.notes, w.version, w.own = n, rec.Version, rec.Position
	w.clock = rec.Time
	return nil
}

// loadSpaceNotes returns when the spaces of the source were created that the
// target has copies of.
func (w *writer) loadSpaceNotes(ctx context.Context) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	for rec, err := range w.to.Scan(ctx, Space, mainstem.Range{Prefix: []byte(spacePrefix)}) {
		if err != nil {
			return nil, err
		}
		var n spaceNote
		if err := json.Unmarshal(rec.Value, &n); err != nil {
			return nil, &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "copy", Space: Space, Key: rec.Key, Err: err}
		}
		out[strings.TrimPrefix(string(rec.Key), spacePrefix)] = n.Created
	}
	return out, nil
}

// movedKey is the key that marks a record as one that stands at the end.
func movedKey(space string, key []byte, v mainstem.Version) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(v))
	b = binary.BigEndian.AppendUint16(b, uint16(len(space)))
	b = append(append(b, space...), key...)
	sum := sha256.Sum256(b)
	return append([]byte(movedPrefix), sum[:]...)
}

// loadMoved returns the keys of the records that stand at the end.
func loadMoved(ctx context.Context, to mainstem.Reader) (map[string]bool, error) {
	out := map[string]bool{}
	for rec, err := range to.Scan(ctx, Space, mainstem.Range{Prefix: []byte(movedPrefix), KeysOnly: true}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out[string(rec.Key)] = true
	}
	return out, nil
}
