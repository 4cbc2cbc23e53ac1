package producer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// Options configures [Open]. Zero fields mean the defaults.
type Options struct {
	// Durability of transactional ids, of offsets in transactions and of the ends of transactions.
	// Default: that of the log. Blocks of producer ids are always written with [mainstem.Fsync].
	Durability mainstem.Durability
	// OnStable is called after the last stable offset of a partition has risen, for instance
	// because a transaction has ended, so that fetches that wait read it again. It is called from
	// many goroutines, also while a transactional id is locked. It must not block and not call the
	// manager. Default: nothing.
	OnStable func(topic.ID, int32)
	// Topics finds the topics that offsets may be stored for. Default: those of the
	// catalog.
	Topics coord.Topics
	// MaxTimeout is the longest transaction timeout that a producer may ask for, as
	// Kafka's transaction.max.timeout.ms. Default [DefaultMaxTimeout].
	MaxTimeout time.Duration
	// TransactionalExpiry is how long a transactional id is kept after its last
	// transaction. Default [DefaultTransactionalExpiry].
	TransactionalExpiry time.Duration
	// ProducerExpiry is how long a partition remembers a producer after its last
	// batch. Default [DefaultProducerExpiry].
	ProducerExpiry time.Duration
	// SnapshotEvery is the number of batches of a partition after which an append also writes a
	// snapshot of the producers. Recovery reads about so many batches at most. Default
	// [DefaultSnapshotEvery].
	SnapshotEvery int
	// Every is the time between two runs of upkeep in the background, see [Manager.Upkeep].
	// Transactions time out in between too. Default [DefaultEvery]; negative: nothing runs in the
	// background, and transactions time out only in calls of Upkeep.
	Every time.Duration
	// Now is the clock. Default [time.Now].
	Now func() time.Time
	// Logger receives failures of requests and of upkeep. Default: discards.
	Logger *slog.Logger
}

// The defaults of [Options], which are Kafka's where Kafka has the setting.
const (
	DefaultMaxTimeout          = 15 * time.Minute
	DefaultTransactionalExpiry = 7 * 24 * time.Hour
	DefaultProducerExpiry      = 24 * time.Hour
	DefaultSnapshotEvery       = 1000
	DefaultEvery               = 30 * time.Second
)

// Limits of requests and transactions.
const (
	MaxTransactionalID = 1024   // bytes in a transactional id
	MaxPartitions      = 20_000 // partitions in one transaction
	MaxTxnGroups       = 1000   // groups with offsets in one transaction
	MaxTxnOffsets      = 20_000 // offsets in one transaction
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxTimeout = cmp.Or(c.MaxTimeout, DefaultMaxTimeout)
	c.TransactionalExpiry = cmp.Or(c.TransactionalExpiry, DefaultTransactionalExpiry)
	c.ProducerExpiry = cmp.Or(c.ProducerExpiry, DefaultProducerExpiry)
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, DefaultSnapshotEvery)
	if c.OnStable == nil {
		c.OnStable = func(topic.ID, int32) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate returns an Invalid error that names every field out of range, or nil. A nil o is valid.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"MaxTimeout", o.MaxTimeout}, {"TransactionalExpiry", o.TransactionalExpiry}, {"ProducerExpiry", o.ProducerExpiry},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: want 0 (default) or more", d.name, d.value))
		}
	}
	if o.SnapshotEvery < 0 {
		errs = append(errs, fmt.Errorf("SnapshotEvery is %d: want 0 (default) or more", o.SnapshotEvery))
	}
	if len(errs) == 0 {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open producers", Outcome: mainstem.NotWritten, Err: errors.Join(errs...)}
}
