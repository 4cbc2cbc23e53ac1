package group

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// Options configures [Open]. Zero fields mean the defaults, which are Kafka's
// where Kafka has the setting; its name is given in brackets.
type Options struct {
	// MinSession and MaxSession bound the session timeout that a classic member may
	// ask for. Defaults 6s and 30m (group.min.session.timeout.ms, group.max.session.timeout.ms).
	MinSession, MaxSession time.Duration
	// MaxSize is the most members of one group. Default 10,000 (group.max.size,
	// group.consumer.max.size).
	MaxSize int
	// InitialDelay is how long the first rebalance of an empty classic group waits for more members
	// after each JoinGroup, up to the rebalance timeout. Default 0, Kafka's is 3s
	// (group.initial.rebalance.delay.ms).
	InitialDelay time.Duration
	// Session is the session timeout of members of consumer groups: a member is removed after this
	// time without a heartbeat. Default 45s (group.consumer.session.timeout.ms).
	Session time.Duration
	// Heartbeat is the heartbeat interval that members of consumer groups are given. Default 5s
	// (group.consumer.heartbeat.interval.ms).
	Heartbeat time.Duration
	// OffsetRetention is how long an offset is kept after its commit while its group is empty or
	// not subscribed to its topic; an empty group keeps its offsets at least this long after its
	// last member has left. Default 7 days (offsets.retention.minutes); negative: no limit.
	OffsetRetention time.Duration
	// SweepEvery is the time between two sweeps, see [Coordinator.Sweep]. Default 10m
	// (offsets.retention.check.interval.ms); negative: only calls of Sweep.
	SweepEvery time.Duration
	// TopicsEvery is how long a consumer group uses the topics that it has read before it reads
	// them again at a heartbeat, see also [Coordinator.TopicsChanged]. Default 1s.
	TopicsEvery time.Duration
	// MaxGroups limits the groups in memory: those with members, and those used since the last
	// sweep. Default 100,000.
	MaxGroups int
	// Durability of stored offsets and of the groups' state. Default: the log's.
	Durability mainstem.Durability
	// Pending finds offsets in open transactions. Default: there are none; see
	// [Coordinator.SetPending].
	Pending Pending
	// Now is the clock of all deadlines. Default [time.Now].
	Now func() time.Time
	// Logger receives failures, and members that are removed because they were silent. Default:
	// discards.
	Logger *slog.Logger
}

// The defaults of [Options].
const (
	DefaultMinSession      = 6 * time.Second
	DefaultMaxSession      = 30 * time.Minute
	DefaultMaxSize         = 10_000
	DefaultSession         = 45 * time.Second
	DefaultHeartbeat       = 5 * time.Second
	DefaultOffsetRetention = 7 * 24 * time.Hour
	DefaultSweepEvery      = 10 * time.Minute
	DefaultTopicsEvery     = time.Second
	DefaultMaxGroups       = 100_000
)

// Limits of one request.
const (
	MaxMemberID  = 1 << 10          // bytes of a member ID; an instance ID may have half as many
	MaxRegex     = coord.MaxPattern // bytes of the regular expression of a subscription
	MaxProtocols = 128              // protocols that a classic member may offer
	maxClientID  = 256              // bytes of a client ID that are kept; the rest is cut off
	maxTries     = 8                // attempts to commit offsets that conflict with a change of the group
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MinSession = cmp.Or(c.MinSession, DefaultMinSession)
	c.MaxSession = cmp.Or(c.MaxSession, DefaultMaxSession)
	c.MaxSize = cmp.Or(c.MaxSize, DefaultMaxSize)
	c.Session = cmp.Or(c.Session, DefaultSession)
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.OffsetRetention = cmp.Or(c.OffsetRetention, DefaultOffsetRetention)
	c.SweepEvery = cmp.Or(c.SweepEvery, DefaultSweepEvery)
	c.TopicsEvery = cmp.Or(c.TopicsEvery, DefaultTopicsEvery)
	c.MaxGroups = cmp.Or(c.MaxGroups, DefaultMaxGroups)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate returns an Invalid error that names every field out of range, or nil. A nil o is valid.
func (o *Options) Validate() error {
	c := o.withDefaults()
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.MinSession < 0 || c.MaxSession < c.MinSession, "sessions from %v to %v: want 0 or more, and not less", c.MinSession, c.MaxSession)
	bad(c.MaxSize < 0, "MaxSize is %d: want 0 (default) or more", c.MaxSize)
	bad(c.InitialDelay < 0, "InitialDelay is %v: want 0 or more", c.InitialDelay)
	bad(c.Heartbeat < time.Millisecond, "Heartbeat is %v: want at least 1ms", c.Heartbeat)
	bad(c.Session <= c.Heartbeat, "Session is %v: want more than Heartbeat, which is %v", c.Session, c.Heartbeat)
	bad(c.TopicsEvery < 0, "TopicsEvery is %v: want 0 (default) or more", c.TopicsEvery)
	bad(c.MaxGroups < 0, "MaxGroups is %d: want 0 (default) or more", c.MaxGroups)
	if len(errs) == 0 {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open groups", Outcome: mainstem.NotWritten, Err: errors.Join(errs...)}
}
