package lease

import (
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
)

// Limits and defaults.
const (
	DefaultBucket = "actor/cluster"
	DefaultTTL    = 10 * time.Second
	MinTTL        = 50 * time.Millisecond // a busy machine may not renew a shorter one in time
	MaxTTL        = time.Hour
	MaxName       = 255     // bytes of the name of a member
	MaxValue      = 4 << 10 // bytes of an address, or of the value of a lease
)

// Options are the options of a [Keeper]. nil and zero fields mean the defaults.
type Options struct {
	// Bucket is the name of the cluster's key-value table: "database/table". Nodes with different
	// buckets belong to different clusters. Default [DefaultBucket].
	Bucket string
	// TTL is the time after which a member that does not renew its session is removed. It is stored
	// with the member, so members may have different ones. Default [DefaultTTL].
	TTL time.Duration
	// Logger receives sessions that were lost, members that were removed, and errors of the log.
	// Default: they are discarded.
	Logger *slog.Logger
}

// withDefaults returns a copy of o with the defaults, or an Invalid error.
func (o *Options) withDefaults() (Options, error) {
	var f Options
	if o != nil {
		f = *o
	}
	if f.Bucket == "" {
		f.Bucket = DefaultBucket
	}
	if f.TTL == 0 {
		f.TTL = DefaultTTL
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	if f.TTL < MinTTL || f.TTL > MaxTTL {
		return f, mainstem.Errorf(mainstem.KindInvalid, "lease", "Options.TTL is %v: want %v to %v", f.TTL, MinTTL, MaxTTL)
	}
	return f, nil
}

// Member is a node of the cluster.
type Member struct {
	Name  string // unique in the cluster, without "/"; empty for a keeper that only watches
	Start uint64 // distinguishes this process of the node from earlier ones
	// Address is the address at which other nodes reach it, such as "10.0.0.1:4370". It is not used
	// here.
	Address string
	// Epoch is the epoch of the member's session. Open ignores it.
	Epoch uint64
}

func (m Member) validate() error {
	switch {
	case len(m.Name) > MaxName:
		return mainstem.Errorf(mainstem.KindInvalid, "lease", "the name of a member has %d bytes: the limit is %d", len(m.Name), MaxName)
	case !utf8.ValidString(m.Name) || strings.Contains(m.Name, "/"):
		return mainstem.Errorf(mainstem.KindInvalid, "lease", "the name %q of a member has a / or is not UTF-8", m.Name)
	case len(m.Address) > MaxValue:
		return mainstem.Errorf(mainstem.KindInvalid, "lease", "the address of %s has %d bytes: the limit is %d", m.Name, len(m.Address), MaxValue)
	case !utf8.ValidString(m.Address):
		return mainstem.Errorf(mainstem.KindInvalid, "lease", "the address %q of %s is not UTF-8", m.Address, m.Name)
	}
	return nil
}

func validateKey(key, value string) error {
	switch {
	case key == "" || len(key)+len(leasePrefix) > mainstem.MaxKey:
		return mainstem.Errorf(mainstem.KindInvalid, "lease", "the key of a lease has %d bytes: want 1 to %d", len(key), mainstem.MaxKey-len(leasePrefix))
	case len(value) > MaxValue:
		return mainstem.Errorf(mainstem.KindInvalid, "lease", "the value of lease %.64q has %d bytes: the limit is %d", key, len(value), MaxValue)
	case !utf8.ValidString(value):
		return mainstem.Errorf(mainstem.KindInvalid, "lease", "the value of lease %.64q is not UTF-8", key)
	}
	return nil
}

// Causes of errors of this package, for errors.Is.
var (
	// ErrHeld is the cause of an error of kind Exists: the name of the member, or the key, is held.
	ErrHeld = errors.New("it is held")
	// ErrLost is the cause of an error of kind Unavailable: the node has no session.
	ErrLost = errors.New("the session is over")
)

func held(op, what string, by string) error {
	return mainstem.Errorf(mainstem.KindExists, op, "%s: %w by %s", what, ErrHeld, by)
}

func lost(op string) error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: op, Err: ErrLost, Hint: "it is taken up again when the log can be reached"}
}
