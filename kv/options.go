package kv

import (
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
)

// HistoryAll is the [Options.History] of a table that keeps every revision.
const HistoryAll = -1

// Options configures a bucket. Nil and zero fields mean the defaults. History, MaxAge, MaxBytes,
// TombstoneAge and NoFeed are properties of the table: they take effect when the first write
// creates it, and [Bucket.Alter] changes them later. The others are properties of the handle.
type Options struct {
	// Codec encodes the values. Default: codec.Raw if T is []byte or string, else codec.JSON; a
	// Protobuf message needs a codec, see codec.Default. All users of a table must use the same
	// one; its name is stored with the table.
	Codec codec.Codec
	// History is how many revisions of a key are kept, tombstones included, at most
	// mainstem.MaxHistory; HistoryAll keeps all. Default 1: only the newest.
	History int
	// TTL is the time to live of values written through this handle without a [TTL] option. Watches
	// report that such a value expired. Default 0: values do not expire.
	TTL time.Duration
	// MaxAge removes all records older than this from the table, whichever handle wrote them.
	// Watches do not report the removal. Default 0: no limit.
	MaxAge time.Duration
	// MaxBytes bounds the bytes of the table's keys, values and metadata; the oldest records are
	// removed in the background. Watches do not report the removal. Default 0: no limit.
	MaxBytes int64
	// TombstoneAge is how long the tombstone of a deleted key is kept. A watch that resumes later
	// than that misses the deletion. Default 0: mainstem.DefaultTombstoneAge; negative: without
	// end.
	TombstoneAge time.Duration
	// NoFeed makes writes cheaper for tables that are never watched: [Bucket.Watch] is Unsupported,
	// and the feed of the whole log leaves the table out. It cannot be altered.
	NoFeed bool
	// Durability is the durability of the methods that commit by themselves. Default: the log's
	// own.
	Durability mainstem.Durability
}

// Validate returns an Invalid error that names every field out of range.
func (o *Options) Validate() error {
	var errs []error
	if o.History < HistoryAll || o.History > mainstem.MaxHistory {
		errs = append(errs, fmt.Errorf("History is %d: want 0 (the default, 1), HistoryAll or 1 to %d", o.History, mainstem.MaxHistory))
	}
	if o.TTL < 0 {
		errs = append(errs, fmt.Errorf("TTL is %v: want 0 (never expires) or more", o.TTL))
	}
	if o.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("MaxAge is %v: want 0 (no limit) or more", o.MaxAge))
	}
	if o.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes is %d: want 0 (no limit) or more", o.MaxBytes))
	}
	if o.Durability < mainstem.OS {
		errs = append(errs, fmt.Errorf("the Durability %d is not one that this version knows", int64(o.Durability)))
	}
	if len(errs) > 0 {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "kv options", Err: errors.Join(errs...)}
	}
	return nil
}

// Names in the metadata of the policy of a table's space.
const (
	metaView  = "view"
	metaCodec = "codec"
)

// policy returns the policy of a table that is created with o.
func (o *Options) policy(c codec.Codec) mainstem.Policy {
	p := mainstem.Policy{
		History: o.History, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, TombstoneAge: o.TombstoneAge, NoFeed: o.NoFeed,
		Metadata: map[string]string{metaView: "kv", metaCodec: c.Name()},
	}
	switch o.History {
	case 0:
		p.History = 1
	case HistoryAll:
		p.History = 0
	}
	return p
}
