package kafkatopic

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
)

// The headers of a record, in this order. All are text.
const (
	HeaderTable    = "alert-table"    // database.table
	HeaderChange   = "alert-change"   // [ChangeWritten] or [ChangeDeleted]
	HeaderVersion  = "alert-version"  // how many records the key has had with this one, in decimal
	HeaderPosition = "alert-position" // place in the log, in decimal; the record's offset
	HeaderSerial   = "alert-serial"   // the column Serial, in decimal; left out of deletions, and where there is none
)

// What [HeaderChange] says. A row that is new is one that was written: the version is 1
// if its key was never there before.
const (
	ChangeWritten = "write"
	ChangeDeleted = "delete"
)

// view is what a topic shows: the newest record of each row of a table.
type view struct {
	log     mainstem.Log
	space   string
	decoder atomic.Pointer[alert.Decoder] // of the table as it was when somebody looked last
}

// Space implements [feedtopic.View].
func (v *view) Space() string { return v.space }

// KeyPrefix implements [feedtopic.View].
func (v *view) KeyPrefix() []byte { return nil }

// Last implements [feedtopic.View].
func (v *view) Last(ctx context.Context) (mainstem.Position, error) {
	info, err := v.log.Space(ctx, v.space)
	return info.Last, err
}

// Revived implements [feedtopic.View]: what is gone does not come back.
func (v *view) Revived(context.Context) (mainstem.Position, error) { return 0, nil }

// current returns a decoder of the table as it is now.
func (v *view) current(ctx context.Context) (*alert.Decoder, error) {
	d := v.decoder.Load()
	ok, err := d.Current(ctx, v.log)
	if err != nil || ok {
		return d, err
	}
	return v.reopen(ctx)
}

func (v *view) reopen(ctx context.Context) (*alert.Decoder, error) {
	d, err := alert.OpenDecoder(ctx, v.log, v.space)
	if err == nil {
		v.decoder.Store(d)
	}
	return d, err
}

// change is a change with what only its record knows.
type change struct {
	alert.Change
	version mainstem.Version
	table   *alert.TableInfo
}

// changes yields the changes behind a position.
func (v *view) changes(ctx context.Context, after mainstem.Position) iter.Seq2[*change, error] {
	return func(yield func(*change, error) bool) {
		d, err := v.current(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		table := d.Table()
		for rec, err := range v.log.Feed(ctx, mainstem.Filter{Spaces: []string{v.space}, After: after}) {
			if err != nil {
				yield(nil, err)
				return
			}
			c, ok, err := d.Change(&rec)
			if errors.Is(err, mainstem.ErrUnavailable) { // the table was altered since
				if d, err = v.reopen(ctx); err == nil {
					table = d.Table()
					c, ok, err = d.Change(&rec)
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if ok && !yield(&change{c, rec.Version, &table}, nil) {
				return
			}
		}
	}
}

// Records implements [feedtopic.View].
func (v *view) Records(ctx context.Context, after mainstem.Position) iter.Seq2[*feedtopic.Record, error] {
	return func(yield func(*feedtopic.Record, error) bool) {
		var r feedtopic.Record
		var value []byte
		for c, err := range v.changes(ctx, after) {
			if err != nil {
				yield(nil, err)
				return
			}
			r = feedtopic.Record{Place: placeOf(c), Key: keyOf(c), Headers: headersOf(r.Headers[:0], c)}
			if !c.Deleted {
				value = appendRow(value[:0], c.Row)
				r.Value = value
			}
			if !yield(&r, nil) {
				return
			}
		}
	}
}

// Places implements [feedtopic.View].
func (v *view) Places(ctx context.Context, after mainstem.Position, limit int) iter.Seq2[feedtopic.Place, error] {
	return func(yield func(feedtopic.Place, error) bool) {
		n := 0
		for c, err := range v.changes(ctx, after) {
			if err != nil {
				yield(feedtopic.Place{}, err)
				return
			}
			if !yield(placeOf(c), nil) {
				return
			}
			if n++; n == limit {
				return
			}
		}
	}
}

func placeOf(c *change) feedtopic.Place {
	return feedtopic.Place{Position: c.Position, Time: c.Time}
}

// keyOf returns the primary key as a text.
func keyOf(c *change) string {
	var parts []string
	for i := range c.table.Columns {
		if c.table.Columns[i].PrimaryKey {
			parts = append(parts, c.Row.At(i).String())
		}
	}
	return strings.Join(parts, ":")
}

func headersOf(hs []feedtopic.Header, c *change) []feedtopic.Header {
	kind := ChangeWritten
	if c.Deleted {
		kind = ChangeDeleted
	}
	hs = append(hs,
		feedtopic.Header{Name: HeaderTable, Value: c.table.Database + "." + c.table.Name},
		feedtopic.Header{Name: HeaderChange, Value: kind},
		feedtopic.Header{Name: HeaderVersion, Value: strconv.FormatUint(uint64(c.version), 10)},
		feedtopic.Header{Name: HeaderPosition, Value: strconv.FormatUint(uint64(c.Position), 10)})
	if serial := c.Row.Int("Serial"); serial != 0 && !c.Deleted {
		hs = append(hs, feedtopic.Header{Name: HeaderSerial, Value: strconv.FormatInt(serial, 10)})
	}
	return hs
}
